import type { Redis } from 'iovalkey';
import { optionalPackage } from '../../../base/packages/optional-package.js';
import { connectionOptions, IOVALKEY_VERSIONS } from '../../../base/packages/redis-address.js';
import { hearSocketErrors } from '../../../base/packages/redis-socket.js';
import { type BlockStore, Outcome } from './block-store.js';
import type { BulkReader } from './bulk-reader.js';
import { directConnector } from './direct-connector.js';
import type { RedisSettings } from './store-options.js';

type Client = typeof import('iovalkey');

interface Connection {
  readonly redis: Redis;
  /** Reads large values; null if the connection uses TLS. */
  readonly reader: BulkReader | null;
}

const NO_BYTES = Buffer.alloc(0);

/**
 * A store in a server of Redis 6.2 or newer, or of Valkey, which engines on several machines share.
 * Commands are pipelined. The server removes values that were not used for the time to live. A full
 * server removes others, or refuses new ones, as its `maxmemory-policy` says.
 *
 * There is one connection. It is made on demand, and closed when the server was too slow or the
 * connection failed. Calls under way then reject, and the next call connects again. The caller
 * decides how often that is tried.
 */
export class RedisStore implements BlockStore {
  readonly #client: Client;
  readonly #settings: RedisSettings;
  #connection: Promise<Connection> | null = null;

  private constructor(client: Client, settings: RedisSettings) {
    this.#client = client;
    this.#settings = settings;
  }

  /** Loads the client. The first call contacts the server. @throws ERR_BLOCKSTEP_NO_PACKAGE */
  static async open(settings: RedisSettings): Promise<RedisStore> {
    const what = 'a store in Redis or Valkey';
    return new RedisStore(await optionalPackage<Client>('iovalkey', IOVALKEY_VERSIONS, what), settings);
  }

  has(keys: readonly string[]): Promise<Uint8Array> {
    return this.#with(async ({ redis }) => {
      const found = await all(keys.map((key) => redis.exists(key)));
      return Uint8Array.from(found, (count) => (count > 0 ? Outcome.done : Outcome.missing));
    });
  }

  get(keys: readonly string[], visit: (index: number, value: Uint8Array | null) => void): Promise<void> {
    return this.#with(async ({ redis, reader }) => {
      await all(
        keys.map(async (key, i) => {
          const reply = await this.#read(redis, key);
          const value = reply === null || reader === null ? reply : reader.open(reply);
          visit(i, value);
          if (value !== null) reader?.give(value);
        }),
      );
    });
  }

  put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array> {
    return this.#with(async ({ redis }) => {
      const outcomes = await all(keys.map((key, i) => this.#write(redis, key, values[i] as Buffer)));
      return Uint8Array.from(outcomes);
    });
  }

  remove(keys: readonly string[]): Promise<void> {
    return this.#with(async ({ redis }) => {
      await redis.unlink(...keys);
    });
  }

  async close(): Promise<void> {
    const connection = await this.#connection?.catch(() => null);
    connection?.redis.disconnect();
    this.#connection = null;
  }

  /** Reads a value, and restarts its time to live. */
  async #read(redis: Redis, key: string): Promise<Buffer | null> {
    const { ttlMs } = this.#settings;
    try {
      const read = ttlMs > 0 ? redis.getexBuffer(key, 'PX', ttlMs) : redis.getBuffer(key);
      return await read;
    } catch (error) {
      // The key holds another type than bytes. Like any foreign value, it cannot be used.
      if (isReply(error, /^WRONGTYPE/)) return NO_BYTES;
      throw error;
    }
  }

  async #write(redis: Redis, key: string, value: Buffer): Promise<Outcome> {
    const { ttlMs } = this.#settings;
    try {
      await (ttlMs > 0 ? redis.set(key, value, 'PX', ttlMs) : redis.set(key, value));
      return Outcome.done;
    } catch (error) {
      if (isReply(error, /^OOM/)) return Outcome.full;
      throw error;
    }
  }

  /**
   * Calls with a connection. A failure closes the connection, unless the server answered with an
   * error.
   */
  async #with<T>(call: (connection: Connection) => Promise<T>): Promise<T> {
    this.#connection ??= this.#connect();
    const connection = this.#connection;
    try {
      return await call(await connection);
    } catch (error) {
      if (this.#connection === connection && !isReply(error, /^(OOM|LOADING|BUSY|MISCONF|READONLY)/)) {
        this.#connection = null;
        void connection.then(
          ({ redis }) => redis.disconnect(),
          () => {},
        );
      }
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    const { url, tls, commandTimeoutMs } = this.#settings;
    const { Redis, AbstractConnector } = this.#client;
    const { db, ...where } = connectionOptions(url, tls);
    let reader: BulkReader | null = null;
    const told = (made: BulkReader): void => {
      reader = made;
    };
    const Connector = directConnector(AbstractConnector, where, told);
    const redis = new Redis({
      ...where,
      ...(where.tls === undefined && { Connector }),
      lazyConnect: true,
      enableOfflineQueue: false,
      enableReadyCheck: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
      connectTimeout: commandTimeoutMs,
      commandTimeout: commandTimeoutMs,
    });
    hearSocketErrors(redis);
    // The call that needs the connection gets the error. Without a listener, the error would be
    // printed too.
    let failed: unknown;
    redis.on('error', (error) => {
      failed ??= error;
    });
    try {
      await redis.connect();
      // The first reply shows whether the password is right.
      await redis.select(db);
      return { redis, reader };
    } catch (error) {
      redis.disconnect();
      throw failed ?? error;
    }
  }
}

/**
 * Waits for all promises, even if one rejects, so that none is under way afterwards. @throws the
 * first error
 */
async function all<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(promises);
  return settled.map((each) => {
    if (each.status === 'rejected') throw each.reason;
    return each.value;
  });
}

/** Whether an error is a server's error reply with this text. */
function isReply(error: unknown, text: RegExp): boolean {
  return error instanceof Error && error.name === 'ReplyError' && text.test(error.message);
}
