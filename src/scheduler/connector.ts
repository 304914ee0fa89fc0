import type { Plan } from './plan.js';
import type { Request } from './request.js';
import type { FinishReason } from './status.js';

/**
 * The connector contract: what moves KV blocks between this engine and elsewhere (vLLM's KVConnectorBase_V1). Two sides
 * that share nothing and speak only through per-step metadata: `SchedulerConnector` on the scheduler's thread,
 * `WorkerConnector` where the model runs. These are types; the rooms above implement them.
 *
 * All scheduler-side methods are called on one thread, never two at once. A method that throws costs the request that it
 * was called for, never the engine.
 */

/** Who keeps a finished request's blocks from being reused while the connector still reads or writes them. */
export type Protection =
  /** `requestFinished` answers true, and the request keeps its blocks until the connector reports it. */
  | 'own'
  /** The connector pins blocks by reference count. */
  | 'pin'
  /** `requestFinished` answers false; jobs on a block are flushed before it is reused. */
  | 'fence';

/** Tokens that a connector can bring beyond the local prefix; null = ask again in a later step. */
export interface Match {
  /** Tokens beyond the local hit, only those available now; local + numTokens <= the request's tokens. */
  numTokens: number | null;
  /** They arrive after the step: the request waits and holds its blocks meanwhile. Must be false when numTokens is 0. */
  async: boolean;
}

/** What a connector decides when a request ended. */
export interface Finished {
  /** The connector owns the blocks until it reports the request in `finishedSending`, exactly once. */
  delayFree: boolean;
  /** Goes to the client with its last output, for instance where a decode engine finds the blocks. */
  transferParams?: Record<string, unknown>;
}

/** What the worker side reports for one step; every report names an incarnation, not an external id. */
export interface ConnectorOutput {
  finishedSending: readonly number[];
  /** Failed loads are reported here too, no earlier than their blocks in `invalidBlocks`. */
  finishedReceiving: readonly number[];
  /** Ids of blocks whose load failed. */
  invalidBlocks: readonly number[];
}

export interface SchedulerConnector<Metadata = unknown> {
  readonly protection: Protection;
  /** Once per incarnation, when it is added. */
  onNewRequest?(request: Request): void;
  /**
   * At admission, while nothing of the request is computed; possibly many times, and again after a preemption. Should
   * have no side effect: the request may die before its allocation. A wrong count reads KV that was never written.
   */
  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match;
  /**
   * After each successful admission, with every block of the request; for an asynchronous load twice, the second time
   * with 0. Zero external tokens must not start a load.
   */
  updateStateAfterAlloc(request: Request, blocks: Int32Array, numExternalTokens: number): void;
  /** At the end of every schedule, of empty ones too. What it returns goes to the workers with the plan. */
  buildMetadata(plan: Plan): Metadata;
  /** At the start of transfer processing in every update that has connector output. */
  updateConnectorOutput(output: ConnectorOutput): void;
  /**
   * Exactly once per incarnation, before its blocks go back; `blocks` is empty if it never had any. Asked a second time
   * by anyone, the first answer is repeated. An abort normally means "do not send".
   */
  requestFinished(request: Request, reason: FinishReason, blocks: Int32Array): Finished;
  /** False: transfers are pending and the tier kept its content. Undefined: it has nothing to reset. */
  resetCache?(): boolean | undefined;
  /** True keeps the engine stepping although nothing can be scheduled. */
  hasPendingWork?(): boolean;
  shutdown?(): void;
}

/** Worker side, in the order in which one step calls it. With nothing to compute the same calls run without a forward. */
export interface WorkerConnector<Metadata = unknown> {
  /** Before any block of this step may be overwritten. */
  handlePreemptions(metadata: Metadata): void;
  startLoads(metadata: Metadata): void;
  /** Before attention of a layer reads its blocks. */
  waitForLayerLoad?(layer: number): Promise<void>;
  saveLayer?(layer: number): void;
  waitForSaves(): Promise<void>;
  /** Incarnations whose transfers ended since the last call, given those that finished now or earlier. */
  getFinished(finishedHandles: readonly number[]): ConnectorOutput;
}
