import { resolve } from 'node:path';
import { badArg, isObject } from '../../../base/checks.js';
import { checkInteger } from '../../../base/errors.js';
import { checkNames, knownNames } from '../../../base/known-names.js';
import { checkPackage } from '../../../base/packages/optional-package.js';
import { checkRedisUrl, IOVALKEY_VERSIONS } from '../../../base/packages/redis-address.js';
import type { BlockStore } from './block-store.js';

/** A store in a file: it needs no server, and serves the engines of one process, whose blocks have one size. */
export interface EmbeddedStoreOptions {
  /** The file, which is made where there is none. The first process has it, and others are refused while that one lives. */
  path: string;
  /** Most bytes that the values take in the file, 1 MiB to 8 TiB. What was unused for longest is removed. Default 16 GiB. */
  maxBytes?: number;
}

/** A store in a server of Redis or Valkey, which engines on several machines share. */
export interface RedisStoreOptions {
  /**
   * `redis://` or, with TLS, `rediss://`: `redis://user:password@host:port/database`; a Unix socket as
   * `redis+unix:///path/of/the/socket?db=0`.
   */
  url: string;
  /** A value is removed when it was neither stored nor loaded for so many milliseconds. Default one day; 0 = never. */
  ttlMs?: number;
  /** Options of the TLS connection, as `tls.connect` takes them, for instance `ca`. They must be plain data. */
  tls?: Readonly<Record<string, unknown>>;
  /** Most milliseconds until the server has answered to a connection, or to a command. Default 1,000. */
  commandTimeoutMs?: number;
}

/**
 * A store of your own: in memory, on a file server, in the cloud. It is called on the thread of the engine, between steps,
 * so it must not block: no method may compute for long, or wait in any other way than by its promise.
 */
export interface OwnStoreOptions {
  /**
   * Opens the store. The connector calls it once, each worker calls it once, and each closes what it was given, so what
   * several of them share must stay open as long as one of them uses it. If it rejects, the store counts as down, and it
   * is called again after a pause.
   */
  open: () => Promise<BlockStore>;
}

/** Where blocks are kept: one of the three kinds. */
export type StoreOptions = EmbeddedStoreOptions | RedisStoreOptions | OwnStoreOptions;

/** Checked options of an embedded store. */
export interface EmbeddedSettings extends Required<EmbeddedStoreOptions> {
  readonly kind: 'embedded';
}

/** Checked options of a store in a server. Plain data, which goes to another thread. */
export interface RedisSettings extends Required<RedisStoreOptions> {
  readonly kind: 'redis';
}

/** Checked options of a store of the user's own. They stay in their thread. */
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
 * Checks where blocks are to be kept. A server is not asked: one that is down costs hits later, and no start.
 * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_PACKAGE if the client of the store is not installed
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
