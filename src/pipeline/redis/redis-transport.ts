import { randomBytes } from 'node:crypto';
import { badArgument, show } from '../../base/errors.js';
import { optionalPackage } from '../../base/packages/optional-package.js';
import { IOVALKEY_VERSIONS } from '../../base/packages/redis-address.js';
import type { Connection, Mailbox, Transport } from '../transport/transport.js';
import type { Client } from './line.js';
import { Party } from './party.js';
import type { RedisPartyStats } from './party-stats.js';
import {
  parseRedisOptions,
  type RedisTransportOptions,
  type RedisTransportSettings,
} from './redis-options.js';
import { Packer } from './wire/packer.js';

/**
 * Carries messages between processes, by streams in a server of Redis 6.2 or newer, or of Valkey.
 * Each party has an inbox: a stream that it reads and that the other parties write. The server must
 * be a single server, not a cluster.
 *
 * Messages arrive once and in order. While the server is away, messages wait at their senders, up
 * to a limit of number and size. If messages may be lost, their receivers' `Mailbox.lost` is
 * called. A stage gets messages that were sent before it joined, while the server keeps them
 * (`ttlMs`). A client that has gone leaves nothing. If two processes have the same name, the later
 * one keeps it.
 *
 * A wrong password or address is no error of `open` or `join`: the connection is retried without
 * end, and `stats` reports the error. A party that has joined keeps its process alive until its
 * connection is closed. Its pipeline or stage closes the connection when it is shut down.
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
   * Loads the client. The server is not contacted before a party joins.
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_PACKAGE if iovalkey or @msgpack/msgpack is not
   * installed
   */
  static async open(options: RedisTransportOptions): Promise<RedisTransport> {
    const settings = parseRedisOptions(options);
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

  /** Returns the statistics of each party of this process, by name. */
  stats(): Record<string, RedisPartyStats> {
    return Object.fromEntries([...this.#parties].map(([name, party]) => [name, party.stats()]));
  }
}
