import { randomBytes } from 'node:crypto';
import { badArgument, show } from '../../base/errors.js';
import { optionalPackage } from '../../base/packages/optional-package.js';
import { IOVALKEY_VERSIONS } from '../../base/packages/redis-address.js';
import type { Connection, Mailbox, Transport } from '../transport/transport.js';
import type { Client } from './line.js';
import { Party } from './party.js';
import type { RedisPartyStats } from './party-stats.js';
import {
  type RedisTransportOptions,
  type RedisTransportSettings,
  takeRedisOptions,
} from './redis-options.js';
import { Packer } from './wire/packer.js';

/**
 * Carries messages between processes, by streams in a server of Redis 6.2 or newer, or of Valkey. Each party has an inbox: a stream
 * that the others add to and that it reads. The server is one server, and no cluster.
 *
 * Messages arrive once and in order. While the server is away messages wait with their senders, up to a stated number and size. If any
 * may have gone, their receivers' `Mailbox.lost` is called. A stage gets what was sent to it before it joined, for as long as
 * the server keeps it (`ttlMs`); a client that has gone leaves nothing. Of two processes with the same name the one that joined
 * last has it.
 *
 * A wrong password or address is no error of `open` or `join`: it is tried again and again, and `stats` says so. A party that has
 * joined keeps its process alive until its connection is closed, which its pipeline or stage does when it is shut down.
 */
export class RedisTransport implements Transport {
  readonly isLocal = false;
  readonly #client: Client;
  readonly #packer: Packer;
  readonly #settings: RedisTransportSettings;
  readonly #parties = new Map<string, Party>();

  private constructor(client: Client, packer: Packer, settings: RedisTransportSettings) {
    this.#client = client;
    this.#packer = packer;
    this.#settings = settings;
  }

  /**
   * Loads the client. The server is not asked before somebody joins.
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_PACKAGE if iovalkey or @msgpack/msgpack is not installed
   */
  static async open(options: RedisTransportOptions): Promise<RedisTransport> {
    const settings = takeRedisOptions(options);
    const what = 'a transport over Redis or Valkey';
    const client = await optionalPackage<Client>('iovalkey', IOVALKEY_VERSIONS, what);
    return new RedisTransport(client, await Packer.open(settings.maxMessageBytes), settings);
  }

  join(name: string, mailbox: Mailbox): Connection {
    if (this.#parties.has(name)) throw badArgument('name', show(name), 'a name that no party has');
    const party = new Party({
      ...{ name, mailbox, client: this.#client, packer: this.#packer, settings: this.#settings },
      ...{ instance: randomBytes(9).toString('base64url'), key: this.#settings.prefix + name },
      now: () => performance.now(),
    });
    this.#parties.set(name, party);
    return {
      send: (to, message) => party.send(to, message),
      close: () => {
        if (this.#parties.get(name) === party) this.#parties.delete(name);
        return party.close();
      },
    };
  }

  /** What each party of this process has sent and got, under its name. */
  stats(): Record<string, RedisPartyStats> {
    return Object.fromEntries([...this.#parties].map(([name, party]) => [name, party.stats()]));
  }
}
