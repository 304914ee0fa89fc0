import { badArg, isObject } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { checkRedisUrl } from '../../base/packages/redis-address.js';

/** Options of a `RedisTransport`. */
export interface RedisTransportOptions {
  /**
   * `redis://` or, with TLS, `rediss://`: `redis://user:password@host:port/database`; a Unix socket
   * as `redis+unix:///path/of/the/socket?db=0`.
   */
  url: string;
  /** Options of the TLS connection, in the form of `tls.connect`, for instance `ca`. */
  tls?: Readonly<Record<string, unknown>>;
  /** Prefix of all keys. Pipelines with different prefixes are separate. Default `blockstep:`. */
  prefix?: string;
  /**
   * Milliseconds after which the server removes the inbox of a party that has gone, at least 1,000.
   * A party that is disconnected for longer loses messages. Default 60,000.
   */
  ttlMs?: number;
  /**
   * Maximum milliseconds until the server has answered; after that, the connection is replaced.
   * Default 1,000.
   */
  commandTimeoutMs?: number;
  /**
   * Maximum number of a party's messages that wait to be sent. Further ones are dropped, and their
   * receivers are told. Default 100,000.
   */
  maxQueuedMessages?: number;
  /** Maximum number of bytes of a party's messages that wait to be sent. Default 64 MiB. */
  maxQueuedBytes?: number;
  /**
   * Maximum number of bytes of one message; the request of a larger message fails. Default 16 MiB.
   */
  maxMessageBytes?: number;
  /**
   * Approximate maximum number of unread entries of an inbox. Beyond it, the oldest are dropped,
   * and the reader is told. Default 100,000.
   */
  maxInboxEntries?: number;
  /**
   * Maximum milliseconds in which `Connection.close` still sends queued messages. Default 2,000.
   */
  closeMs?: number;
}

/** Checked `RedisTransportOptions`. */
export interface RedisTransportSettings extends Required<RedisTransportOptions> {}

const OPTIONS = knownNames<RedisTransportOptions>(
  'the options of a RedisTransport',
  {
    url: true,
    tls: true,
    prefix: true,
    ttlMs: true,
    commandTimeoutMs: true,
    maxQueuedMessages: true,
    maxQueuedBytes: true,
    maxMessageBytes: true,
    maxInboxEntries: true,
    closeMs: true,
  },
  {
    host: 'it is a part of url',
    port: 'it is a part of url',
    password: 'it is a part of url',
    maxlen: 'did you mean maxInboxEntries?',
  },
);
const MAX_MS = 2 ** 31 - 1;
const MAX_PREFIX = 256;
const MIB = 2 ** 20;

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseRedisOptions(options: unknown): RedisTransportSettings {
  if (!isObject(options)) throw badArg('options', options, 'an object with url');
  checkNames(options, OPTIONS);
  const { url, tls = {}, prefix = 'blockstep:', ...given } = options as unknown as RedisTransportOptions;
  checkRedisUrl('url', url);
  if (!isObject(tls)) throw badArg('tls', tls, 'an object');
  if (typeof prefix !== 'string' || prefix.length > MAX_PREFIX)
    throw badArg('prefix', prefix, `a string of at most ${MAX_PREFIX} characters`);
  const { ttlMs = 60_000, commandTimeoutMs = 1000, closeMs = 2000, maxQueuedMessages = 100_000 } = given;
  const { maxQueuedBytes = 64 * MIB, maxMessageBytes = 16 * MIB, maxInboxEntries = 100_000 } = given;
  return {
    ...{ url, tls: { ...tls }, prefix },
    ttlMs: checkInteger('ttlMs', ttlMs, 1000, MAX_MS),
    commandTimeoutMs: checkInteger('commandTimeoutMs', commandTimeoutMs, 1, MAX_MS),
    maxQueuedMessages: checkInteger('maxQueuedMessages', maxQueuedMessages, 1, MAX_MS),
    maxQueuedBytes: checkInteger('maxQueuedBytes', maxQueuedBytes, 1024, Number.MAX_SAFE_INTEGER),
    // The server takes values of up to 512 MiB.
    maxMessageBytes: checkInteger('maxMessageBytes', maxMessageBytes, 1024, 256 * MIB),
    maxInboxEntries: checkInteger('maxInboxEntries', maxInboxEntries, 1, MAX_MS),
    closeMs: checkInteger('closeMs', closeMs, 0, MAX_MS),
  };
}
