// The messages between the two.
import type { LeaseConnectorStats, LeaseWorkerStats } from '../../../../src/connectors/lease/index.js';
import type { EngineStats } from '../../../../src/index.js';

/** The options of a child process. */
export interface ChildSetup {
  readonly address: string;
  readonly pipelineDepth: 1 | 2;
  readonly seed: number;
  readonly leaseMs: number;
  readonly peerTimeoutMs: number;
  readonly loadFailurePolicy: 'recompute' | 'fail';
  /** Whether its KV memory can be mapped by others. */
  readonly shares: boolean;
}

export type Params = Readonly<Record<string, unknown>> | null;

/** A command of the parent. */
export type Command =
  | {
      readonly kind: 'submit';
      readonly number: number;
      readonly prompt: readonly number[];
      readonly maxTokens: number;
      readonly transferParams: Params;
    }
  | { readonly kind: 'abort'; readonly number: number }
  | { readonly kind: 'report'; readonly number: number }
  | { readonly kind: 'end' };

/** The state of a child's engine. */
export interface ChildReport {
  /** Another one in each life of the process. */
  readonly engineId: string;
  readonly hasWork: boolean;
  readonly scheduler: EngineStats['scheduler'];
  readonly worker: LeaseWorkerStats;
  readonly connector: LeaseConnectorStats;
  readonly faults: number;
  readonly workerFailures: number;
}

/** How a request ended. */
export interface ChildResult {
  readonly tokens: readonly number[];
  readonly finishReason: string;
  readonly transferParams: Params;
  readonly error: string;
}

/** A reply of the child. */
export type Reply =
  | { readonly kind: 'ready' }
  | ({ readonly kind: 'result'; readonly number: number } & ChildResult)
  | { readonly kind: 'report'; readonly number: number; readonly report: ChildReport };
