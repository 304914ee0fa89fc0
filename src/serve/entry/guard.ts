import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../api/api-error.js';

/** The configuration of a route. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route is open to everybody, without a key and under any host name. */
    isOpen?: boolean;
  }
}

/**
 * Decides which requests are allowed.
 *
 * Clients without a key are trusted because of their network location, and pages of strangers run
 * in browsers at that location. Such a page can let its own host name resolve to this server's
 * address (DNS rebinding). To the browser, the server then belongs to the page's site. So without
 * keys the server answers only under names that strangers cannot control: IP addresses,
 * `localhost`, this machine's name, and configured names.
 */
export class Guard {
  /** Hashes of the keys. They have equal lengths, whatever the lengths of the keys are. */
  readonly #hashes: readonly Buffer[];
  readonly #names: ReadonlySet<string>;

  /** @param allowedHosts names of the server, in lower case */
  constructor(apiKeys: readonly string[], allowedHosts: readonly string[]) {
    this.#hashes = apiKeys.map(hashOf);
    this.#names = new Set(allowedHosts);
  }

  /** @throws ApiError if the request is refused */
  check(request: FastifyRequest): void {
    // Clients of HTTP/1.0 may omit the host; clients of HTTP/1.1 must send it.
    if (request.raw.httpVersion === '1.1' && hostOf(request) === undefined)
      throw new ApiError(400, 'the request has no Host header, as HTTP/1.1 wants', { code: 'missing_host' });
    if (request.method !== 'GET' && request.method !== 'HEAD') this.#checkOrigin(request);
    if (request.routeOptions.config.isOpen === true) return;
    if (this.#hashes.length === 0) this.#checkHost(request);
    else this.#checkKey(request);
  }

  #checkKey({ headers }: FastifyRequest): void {
    const [, key] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '') ?? [];
    if (key === undefined)
      throw new ApiError(401, 'a key is needed, as "Authorization: Bearer KEY"', { code: 'missing_api_key' });
    const given = hashOf(key);
    // All keys are compared, so that the time reveals nothing about them.
    const matches = this.#hashes.filter((hash) => timingSafeEqual(hash, given));
    if (matches.length === 0)
      throw new ApiError(401, 'the key is not known here', { code: 'invalid_api_key' });
  }

  #checkHost(request: FastifyRequest): void {
    const host = hostOf(request);
    // Only clients of HTTP/1.0 omit the host; all browsers send it.
    if (host === undefined) return;
    const name = nameOf(host);
    if (isOwn(name) || this.#names.has(name)) return;
    const message = `without a key this server does not answer to the name ${JSON.stringify(name.slice(0, 100))}; --allowed-hosts (allowedHosts) says by which names it is asked`;
    throw new ApiError(403, message, { code: 'foreign_host' });
  }

  /**
   * Refuses requests that a page of another site makes a browser send. The browser of a user of
   * this machine can reach servers that only this machine can, and sends simple requests without a
   * preflight. Other clients send no `Origin`.
   */
  #checkOrigin(request: FastifyRequest): void {
    const { origin } = request.headers;
    if (origin === undefined) return;
    const url = URL.canParse(origin) ? new URL(origin) : null;
    // A proxy may know the server under another name than its clients do.
    if (url !== null && (url.host === hostOf(request) || this.#names.has(nameOf(url.host)))) return;
    throw new ApiError(403, 'requests from the pages of other sites are refused', { code: 'foreign_origin' });
  }
}

/**
 * The host that the request itself names. Headers that a proxy adds are ignored, because a page
 * could add them too.
 */
function hostOf({ headers }: FastifyRequest): string | undefined {
  return headers.host ?? (headers[':authority'] as string | undefined);
}

/** A host name without its port, in lower case. */
function nameOf(host: string): string {
  return host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}

/** Whether strangers cannot control where this name resolves to. */
function isOwn(name: string): boolean {
  if (isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost')) return true;
  const own = hostname().toLowerCase();
  return name === own || name === `${own}.local`;
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
