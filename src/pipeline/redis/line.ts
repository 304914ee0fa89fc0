import type { Redis } from 'iovalkey';
import { describeError } from '../../base/errors.js';
import { connectionOptions } from '../../base/packages/redis-address.js';
import { hearSocketErrors } from '../../base/packages/redis-socket.js';
import type { RedisTransportSettings } from './redis-options.js';

/** The client's library. */
export type Client = typeof import('iovalkey');

/**
 * Milliseconds before the first and the longest pause before a retry. The pause doubles from try to
 * try.
 */
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 2000;
/** A connection that worked for this many milliseconds resets the pause. */
const GOOD_MS = 1000;

/**
 * A line to the server: a sequence of connections. Each is used until its use fails; then it is
 * closed, and a new one is made after a pause. An open line keeps the process alive.
 */
export class Line {
  readonly #client: Client;
  readonly #settings: RedisTransportSettings;
  readonly #use: (redis: Redis) => Promise<void>;
  #redis: Redis | null = null;
  #isConnected = false;
  #isClosed = false;
  #wake: (() => void) | null = null;
  #numConnections = 0;
  #lastError: string | null = null;
  /** Resolves when the line and its connection are closed. */
  readonly over: Promise<void>;

  /**
   * @param use uses a connection, which is closed when the promise settles. The promise must settle
   * when the connection is closed
   */
  constructor(client: Client, settings: RedisTransportSettings, use: (redis: Redis) => Promise<void>) {
    this.#client = client;
    this.#settings = settings;
    this.#use = use;
    this.over = this.#run();
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Number of connections so far that worked. */
  get numConnections(): number {
    return this.#numConnections;
  }

  /** Message of the line's last failure; null: it has not failed. */
  get lastError(): string | null {
    return this.#lastError;
  }

  /** Ends the line at once. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.#redis?.disconnect();
    this.#wake?.();
  }

  async #run(): Promise<void> {
    for (let tries = 0; !this.#isClosed; tries++) {
      let connectedAt = Number.POSITIVE_INFINITY;
      try {
        const redis = await this.#connect();
        connectedAt = performance.now();
        if (!this.#isClosed) await this.#use(redis);
      } catch (error) {
        if (!this.#isClosed) this.#lastError = describeError(error);
      }
      this.#isConnected = false;
      this.#redis?.disconnect();
      this.#redis = null;
      if (this.#isClosed) return;
      if (performance.now() - connectedAt > GOOD_MS) tries = 0;
      await this.#pause(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 20)));
    }
  }

  async #connect(): Promise<Redis> {
    const { url, tls, commandTimeoutMs } = this.#settings;
    const { db, ...where } = connectionOptions(url, tls);
    const redis = new this.#client.Redis({
      ...where,
      lazyConnect: true,
      enableReadyCheck: false,
      // A broken connection stays broken, and everything on it fails. This class makes the next
      // one.
      retryStrategy: () => null,
      connectTimeout: commandTimeoutMs,
      disconnectTimeout: commandTimeoutMs,
    });
    hearSocketErrors(redis);
    this.#redis = redis;
    // The user of the connection gets the error. Without a listener, the error would be printed
    // too.
    let failed: unknown;
    redis.on('error', (error) => {
      failed ??= error;
    });
    try {
      await inTime(redis.connect(), commandTimeoutMs);
      // The first reply shows whether the password is right.
      await inTime(redis.select(db), commandTimeoutMs);
    } catch (error) {
      throw failed ?? error;
    }
    this.#isConnected = true;
    this.#numConnections++;
    return redis;
  }

  /**
   * Waits for a random time between half of `ms` and `ms`, so that not all parties reconnect at the
   * same moment.
   */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms * (0.5 + Math.random() / 2));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/**
 * Waits for a server's answer. @throws the call's error, or an error if it took too long. The
 * connection must then be closed
 */
export function inTime<T>(call: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error(`the server has not answered for ${ms} ms`));
    }, ms);
    const settle = (done: () => void): void => {
      clearTimeout(timer);
      done();
    };
    call.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
  });
}
