import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../api/api-error.js';

/** What a route says of itself. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether everybody may ask it, without a key. */
    isOpen?: boolean;
  }
}

/** Decides who may ask what. */
export class Guard {
  /** Hashes of the keys, which have equal lengths whatever the keys have. */
  readonly #hashes: readonly Buffer[];

  constructor(apiKeys: readonly string[]) {
    this.#hashes = apiKeys.map(hashOf);
  }

  /** @throws ApiError if the request is refused */
  check(request: FastifyRequest): void {
    if (request.method !== 'GET' && request.method !== 'HEAD') checkOrigin(request);
    if (this.#hashes.length === 0 || request.routeOptions.config.isOpen === true) return;
    const [, key] = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? [];
    if (key === undefined)
      throw new ApiError(401, 'a key is needed, as "Authorization: Bearer KEY"', { code: 'missing_api_key' });
    const given = hashOf(key);
    // All keys are compared, so that the time says nothing of which is near.
    const matches = this.#hashes.filter((hash) => timingSafeEqual(hash, given));
    if (matches.length === 0)
      throw new ApiError(401, 'the key is not known here', { code: 'invalid_api_key' });
  }
}

/**
 * Refuses what the page of another site has a browser send: the browser of whoever works at this machine reaches servers that are for this
 * machine alone, and sends simple requests without asking. Other clients send no `Origin`.
 */
function checkOrigin({ headers }: FastifyRequest): void {
  const { origin, host } = headers;
  if (origin === undefined || hostOf(origin) === host) return;
  throw new ApiError(403, 'requests from the pages of other sites are refused', { code: 'foreign_origin' });
}

function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
