import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../api/api-error.js';

/** What a route says of itself. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether everybody may ask it, without a key, and by any name of the server. */
    isOpen?: boolean;
  }
}

/**
 * Decides who may ask what.
 *
 * Who asks without a key is trusted for the place where they are, and the pages of strangers run in browsers there. Such a page may have its
 * own name lead to this server's address (DNS rebinding): to the browser, it then asks the site that it came from. So without keys a server
 * answers to names alone that strangers cannot have: addresses, `localhost`, this machine's name, and those that it was told.
 */
export class Guard {
  /** Hashes of the keys, which have equal lengths whatever the keys have. */
  readonly #hashes: readonly Buffer[];
  readonly #names: ReadonlySet<string>;

  /** @param allowedHosts names of the server, in lower case */
  constructor(apiKeys: readonly string[], allowedHosts: readonly string[]) {
    this.#hashes = apiKeys.map(hashOf);
    this.#names = new Set(allowedHosts);
  }

  /** @throws ApiError if the request is refused */
  check(request: FastifyRequest): void {
    // Clients of HTTP/1.0 say none, and those of HTTP/1.1 must.
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
    // All keys are compared, so that the time says nothing of which is near.
    const matches = this.#hashes.filter((hash) => timingSafeEqual(hash, given));
    if (matches.length === 0)
      throw new ApiError(401, 'the key is not known here', { code: 'invalid_api_key' });
  }

  #checkHost(request: FastifyRequest): void {
    const host = hostOf(request);
    // Only clients of HTTP/1.0 say none, and browsers all do.
    if (host === undefined) return;
    const name = nameOf(host);
    if (isOwn(name) || this.#names.has(name)) return;
    const message = `without a key this server does not answer to the name ${JSON.stringify(name.slice(0, 100))}; --allowed-hosts (allowedHosts) says by which names it is asked`;
    throw new ApiError(403, message, { code: 'foreign_host' });
  }

  /**
   * Refuses what the page of another site has a browser send: the browser of whoever works at this machine reaches servers that are for this
   * machine alone, and sends simple requests without asking. Other clients send no `Origin`.
   */
  #checkOrigin(request: FastifyRequest): void {
    const { origin } = request.headers;
    if (origin === undefined) return;
    const url = URL.canParse(origin) ? new URL(origin) : null;
    // A proxy may have another name for the server than its clients.
    if (url !== null && (url.host === hostOf(request) || this.#names.has(nameOf(url.host)))) return;
    throw new ApiError(403, 'requests from the pages of other sites are refused', { code: 'foreign_origin' });
  }
}

/** What the request itself says, whatever a proxy adds to it: a page could add the same. */
function hostOf({ headers }: FastifyRequest): string | undefined {
  return headers.host ?? (headers[':authority'] as string | undefined);
}

/** A name without its port, in lower case. */
function nameOf(host: string): string {
  return host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}

/** Whether no stranger can have this name lead anywhere. */
function isOwn(name: string): boolean {
  if (isIP(name) !== 0 || name === 'localhost' || name.endsWith('.localhost')) return true;
  const own = hostname().toLowerCase();
  return name === own || name === `${own}.local`;
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
