import { createHash } from 'node:crypto';
import { isCount, isList, isObject } from '../../../base/checks.js';
import type { ConnectorRequest } from '../../../scheduler/request/connector-request.js';

/** The fields besides the tokens that identify KV. */
type Keys = Pick<ConnectorRequest, 'adapter' | 'cacheSalt'>;

/** A number of leading tokens whose KV can be loaded, and a digest of these tokens. */
export interface Extent {
  readonly numTokens: number;
  /** Digest of the tokens, the adapter and the salt. The KV belongs to exactly these. */
  readonly digest: string;
  /**
   * With KV cache groups: the fewest tokens that a reader can resume behind. The blocks for fewer
   * tokens were released. Absent: any number of tokens, as with full attention.
   */
  readonly from?: number;
}

/**
 * The transfer params that a prefill's last output carries and that the client gives to the decode
 * engine. Names are those of vLLM's NIXL connector where it has one. The params hold no secret and
 * no block id. If a client changes them, the load is refused and the prompt is computed.
 */
export interface HandOverParams {
  readonly doRemotePrefill: true;
  /** Name of the engine that computed the prompt, for people. */
  readonly remoteEngineId: string;
  /** Name of the lease, unique among all requests and all lives of the engine. */
  readonly remoteRequestId: string;
  /** The addresses of the engine's workers, by rank. */
  readonly remoteAddresses: readonly string[];
  /** Digest of all settings that both engines must agree on. */
  readonly settings: string;
  /**
   * How long a lease lasts without a sign of life, in milliseconds. It is a duration, not an
   * instant.
   */
  readonly leaseMs: number;
  /**
   * The extents that can be loaded: the prompt, and also all tokens if there are more. They are in
   * ascending order.
   */
  readonly extents: readonly Extent[];
}

/** Longest text in the params and in messages between workers, in UTF-16 units. */
export const MAX_TEXT = 512;
/** Longest lease, in milliseconds: a day. */
export const MAX_LEASE_MS = 24 * 3600 * 1000;

/** Whether a client asks the engine to keep the request's KV for another engine. */
export function wantsRemoteDecode(params: Readonly<Record<string, unknown>> | null): boolean {
  return params !== null && params['doRemoteDecode'] === true;
}

/** Whether a client says that another engine has computed the request's prompt. */
export function namesRemotePrefill(params: Readonly<Record<string, unknown>> | null): boolean {
  return params !== null && params['doRemotePrefill'] === true;
}

/**
 * Reads the params that a client gave.
 * @param numRanks the required number of addresses
 * @returns null if any field is invalid
 */
export function readHandOver(params: unknown, numRanks: number): HandOverParams | null {
  if (!isObject(params)) return null;
  const { doRemotePrefill, remoteEngineId, remoteRequestId, remoteAddresses, settings, leaseMs, extents } =
    params;
  if (doRemotePrefill !== true || ![remoteEngineId, remoteRequestId, settings].every(isText)) return null;
  if (!isList(remoteAddresses, isText) || remoteAddresses.length !== numRanks) return null;
  if (typeof leaseMs !== 'number' || !(leaseMs > 0 && leaseMs <= MAX_LEASE_MS)) return null;
  if (!isList(extents, isExtent) || extents.length === 0 || extents.length > 2) return null;
  return {
    doRemotePrefill,
    remoteEngineId: remoteEngineId as string,
    remoteRequestId: remoteRequestId as string,
    remoteAddresses: [...remoteAddresses] as string[],
    settings: settings as string,
    leaseMs,
    extents: (extents as Extent[]).map(({ numTokens, digest, from }) => ({
      ...{ numTokens, digest },
      ...(from !== undefined && { from }),
    })),
  };
}

/**
 * Returns the digest of the first `numTokens` tokens under an adapter and a salt. As in the prefix
 * cache, KV under one salt never equals KV under another salt.
 */
export function digestOf(tokens: Int32Array, numTokens: number, { adapter, cacheSalt }: Keys): string {
  const own = tokens.subarray(0, numTokens);
  const bytes = new Uint8Array(own.buffer, own.byteOffset, own.byteLength);
  const keys = `${adapter.length}:${adapter}${cacheSalt.length}:${cacheSalt}`;
  return createHash('sha256').update(keys).update(bytes).digest('base64');
}

/**
 * Returns the digest of all settings that two engines must agree on. With equal digests, KV means
 * the same in both engines.
 */
export function settingsDigest(settings: Readonly<Record<string, string | number>>): string {
  const entries = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(entries)).digest('base64');
}

/**
 * Returns the longest offered extent that equals the request's first tokens; null if none does.
 * @param tokens all known tokens of the request
 */
export function usableExtent({ extents }: HandOverParams, tokens: Int32Array, keys: Keys): Extent | null {
  const fits = ({ numTokens, digest }: Extent): boolean =>
    numTokens <= tokens.length && digestOf(tokens, numTokens, keys) === digest;
  return extents.toReversed().find(fits) ?? null;
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TEXT;
}

function isExtent(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { numTokens, digest, from } = value;
  return isCount(numTokens) && numTokens > 0 && isText(digest) && (from === undefined || isCount(from));
}
