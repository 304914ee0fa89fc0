import { resolve } from 'node:path';
import { badArg, isObject } from '../../../base/checks.js';
import { checkInteger } from '../../../base/errors.js';
import { checkNames, knownNames } from '../../../base/known-names.js';
import { checkPackage } from '../../../base/packages/optional-package.js';
import { checkRedisUrl, IOVALKEY_VERSIONS } from '../../../base/packages/redis-address.js';
import type { BlockStore } from './block-store.js';

/**
 * A store in a file. It needs no server, and serves the engines of one process whose blocks have
 * one size.
 */
export interface EmbeddedStoreOptions {
  /**
   * The file, which is created if missing. The first process owns it, and others are refused while
   * that process lives.
   */
  path: string;
  /**
   * Maximum number of bytes of all values in the file, 1 MiB to 8 TiB. The least recently used
   * value is removed first. Default 16 GiB.
   */
  maxBytes?: number;
}

/** A store in a server of Redis or Valkey, which engines on several machines share. */
export interface RedisStoreOptions {
  /**
   * `redis://` or, with TLS, `rediss://`: `redis://user:password@host:port/database`; a Unix socket
   * as `redis+unix:///path/of/the/socket?db=0`.
   */
  url: string;
  /**
   * Time to live in milliseconds: a value is removed if it was neither stored nor loaded for this
   * time. Default one day; 0 = never.
   */
  ttlMs?: number;
  /**
   * Options of the TLS connection, in the form of `tls.connect`, for instance `ca`. They must be
   * plain data.
   */
  tls?: Readonly<Record<string, unknown>>;
  /**
   * Maximum time until the server answers a connection or a command, in milliseconds. Default
   * 1,000.
   */
  commandTimeoutMs?: number;
}

/**
 * A user's own store: in memory, on a file server, in the cloud. It is called on the engine's
 * thread, between steps. No method may block or compute for long; it must return a promise instead.
 */
export interface OwnStoreOptions {
  /**
   * Opens the store. The connector and each worker call it once, and each of them closes its store.
   * Resources that several of them share must stay open while one of them uses them. If the promise
   * rejects, the store counts as down, and `open` is called again after a pause.
   */
  open: () => Promise<BlockStore>;
}

/** The store that keeps blocks: one of the three kinds. */
export type StoreOptions = EmbeddedStoreOptions | RedisStoreOptions | OwnStoreOptions;

/** Checked options of an embedded store. */
export interface EmbeddedSettings extends Required<EmbeddedStoreOptions> {
  readonly kind: 'embedded';
}

/** Checked options of a store in a server. Plain data, which goes to another thread. */
export interface RedisSettings extends Required<RedisStoreOptions> {
  readonly kind: 'redis';
}

/** Checked options of a user's own store. They stay in their thread. */
export interface OwnSettings extends OwnStoreOptions {
  readonly kind: 'own';
}

export type StoreSettings = EmbeddedSettings | RedisSettings | OwnSettings;

const EMBEDDED = knownNames<EmbeddedStoreOptions>('the options of an embedded store', {
  path: true,
  maxBytes: true,
});
const REDIS = knownNames<RedisStoreOptions>('the options of a store in Redis or Valkey', {
  url: true,
  ttlMs: true,
  tls: true,
  commandTimeoutMs: true,
});
const OWN = knownNames<OwnStoreOptions>('the options of a store of your own', { open: true });
const MAX_MS = 2 ** 31 - 1;

/**
 * Checks the options of a store. The check does not contact a server: a server that is down costs
 * hits later, but does not prevent a start.
 * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_PACKAGE if the client of the store is not
 * installed
 */
export function checkStore(store: unknown): StoreSettings {
  if (!isObject(store)) throw badArg('store', store, 'an object with path, with url, or with open');
  if (store['url'] !== undefined) return checkRedis(store);
  if (store['path'] !== undefined) return checkEmbedded(store);
  if (store['open'] !== undefined) return checkOwn(store);
  throw badArg('store', store, 'an object with path (embedded), url (Redis, Valkey) or open (your own)');
}

function checkEmbedded(store: object): EmbeddedSettings {
  checkNames(store, EMBEDDED);
  const { path, maxBytes = 2 ** 34 } = store as EmbeddedStoreOptions;
  if (typeof path !== 'string' || path === '') throw badArg('store.path', path, 'the path of a file');
  checkInteger('store.maxBytes', maxBytes, 2 ** 20, 2 ** 43);
  return { kind: 'embedded', path: resolve(path), maxBytes };
}

function checkRedis(store: object): RedisSettings {
  checkNames(store, REDIS);
  const { url, ttlMs = 86_400_000, tls = {}, commandTimeoutMs = 1000 } = store as RedisStoreOptions;
  checkRedisUrl('store.url', url);
  if (!isObject(tls)) throw badArg('store.tls', tls, 'an object');
  checkInteger('store.ttlMs', ttlMs, 0, Number.MAX_SAFE_INTEGER);
  checkInteger('store.commandTimeoutMs', commandTimeoutMs, 1, MAX_MS);
  checkPackage('iovalkey', IOVALKEY_VERSIONS, 'a store in Redis or Valkey');
  return { kind: 'redis', url, ttlMs, tls: { ...tls }, commandTimeoutMs };
}

function checkOwn(store: object): OwnSettings {
  checkNames(store, OWN);
  const { open } = store as OwnStoreOptions;
  if (typeof open !== 'function') throw badArg('store.open', open, 'a function that opens a block store');
  return { kind: 'own', open };
}
