// Checks and reads the URL of a server of Redis or Valkey.
import { isIP } from 'node:net';
import { badArg } from '../checks.js';

/** The versions of iovalkey that work, as npm writes them. */
export const IOVALKEY_VERSIONS = '^0.4.0';

/** The address of a server and the credentials for it, in the form of iovalkey. */
export interface ConnectionOptions {
  readonly host?: string;
  readonly port?: number;
  /** Path of a Unix socket. */
  readonly path?: string;
  readonly username?: string;
  readonly password?: string;
  /** Number of the database. */
  readonly db: number;
  readonly tls?: Record<string, unknown>;
}

/**
 * Parses the URL of a server.
 * @param url `redis:`, `rediss:` or `redis+unix:`, already checked
 * @param tls options for TLS. If there are any, they turn TLS on for `redis:` too
 */
export function connectionOptions(url: string, tls: Readonly<Record<string, unknown>>): ConnectionOptions {
  const { protocol, hostname, port, pathname, username, password, searchParams } = new URL(url);
  const isSocket = protocol === 'redis+unix:';
  const db = Number((isSocket ? searchParams.get('db') : pathname.slice(1)) || 0);
  const user = username === '' ? {} : { username: decodeURIComponent(username) };
  const secret = password === '' ? {} : { password: decodeURIComponent(password) };
  const who = { ...user, ...secret, db };
  if (isSocket) return { path: decodeURIComponent(pathname), ...who };
  // A URL writes an IPv6 address in brackets.
  const host = hostname.replace(/^\[(.*)\]$/, '$1') || '127.0.0.1';
  const place = { host, port: port === '' ? 6379 : Number(port), ...who };
  if (protocol !== 'rediss:' && Object.keys(tls).length === 0) return place;
  // TLS names no address. The certificate is then compared with the host.
  const name = isIP(host) === 0 ? { servername: host } : {};
  return { ...place, tls: { ...name, ...tls } };
}

/**
 * Checks the URL of a server. The URL may hold a password, so no message has it.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkRedisUrl(name: string, url: unknown): asserts url is string {
  const expected = 'redis://, rediss:// or redis+unix:// and the address of a server';
  if (typeof url !== 'string' || !URL.canParse(url)) throw badArg(name, typeof url, expected);
  const { protocol } = new URL(url);
  if (!['redis:', 'rediss:', 'redis+unix:'].includes(protocol)) throw badArg(name, protocol, expected);
}
