// The messages between parent and child.
import type { RedisPartyStats } from '../../../src/pipeline/redis/index.js';
import type { StageName } from './stages.js';

/** The options of a child process: a stage, or a client that submits requests without end. */
export interface ChildSetup {
  readonly role: StageName | 'client';
  readonly url: string;
  /** Milliseconds: see `StageServerOptions.deadMs`, and the options of `RedisTransport`. */
  readonly deadMs: number;
  readonly ttlMs: number;
  readonly commandTimeoutMs: number;
  readonly latencyMs: number;
}

/** A command of the parent. */
export type Command = { readonly kind: 'report'; readonly number: number } | { readonly kind: 'end' };

/** The state of a child. */
export interface ChildReport {
  /** Unfinished requests, of a client or a stage. */
  readonly requests: number;
  /** Requests in the engine of a stage, and KV blocks in use. */
  readonly inEngine: number;
  /** Faults that the executor saw. */
  readonly faults: number;
  readonly anomalies: Record<string, number>;
  readonly transport: RedisPartyStats;
}

/** A reply of the child. */
export type Reply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'report'; readonly number: number; readonly report: ChildReport };
