import type { Plan } from './plan.js';
import type { Request } from './request.js';
import type { FinishReason } from './status.js';

/**
 * The connector contract: what moves KV blocks between this engine and elsewhere (vLLM's KVConnectorBase_V1). Two sides
 * that share nothing and speak only through per-step metadata: `SchedulerConnector` on the scheduler's thread,
 * `WorkerConnector` (one per rank) where the model runs.
 *
 * The methods of one side are called on one thread, never two at once, and must not call back into the scheduler
 * (ERR_BLOCKSTEP_REENTRANT, thrown into the method), except `abort`. Each call stands inside an exception boundary: a
 * method that throws, or answers what makes no sense, is counted as the anomaly `connector-failed` and costs the request
 * that it was called for, which ends with `error`; never the engine.
 *
 * Requests are named by handle, which never names a later request with the same external id.
 */

/** Who keeps a finished request's blocks from being reused while the connector still reads or writes them. */
export type Protection =
  /** `requestFinished` answers true, and the request keeps its blocks until the connector reports it. */
  | 'own'
  /** The connector pins blocks by reference count (`BlockPins`) for as long as its jobs use them. */
  | 'pin'
  /** `requestFinished` answers false; jobs on a block are flushed before a step reuses it (`Plan`'s new blocks tell). */
  | 'fence';

/** Tokens that a connector can bring beyond the local prefix. */
export interface Match {
  /** Tokens beyond the local hit, only those available now; null = ask again in a later step. */
  readonly numTokens: number | null;
  /** They arrive after the step: the request waits and holds its blocks meanwhile. Must be false when numTokens is 0. */
  readonly async: boolean;
  /** The child that will load them, of a connector made of several. Only its reports count. Default 0. */
  readonly child?: number;
}

/** What a connector decides when a request ended. */
export interface Finished {
  /** The connector owns the blocks until it has reported the request in `finishedSending`, each rank exactly once. */
  readonly delayFree: boolean;
  /** The children that will report, of a connector made of several. Default [0]. Read only if `delayFree`. */
  readonly children?: readonly number[];
  /** Goes to the client with its last output, for instance where a decode engine finds the blocks. */
  readonly transferParams?: Readonly<Record<string, unknown>>;
}

/** One rank of one child has done all that it had to do for one request in one direction. */
export interface TransferReport {
  readonly handle: number;
  /** Default 0. */
  readonly child?: number;
  /** Default 0; stamped by the engine for the worker that it comes from. */
  readonly rank?: number;
  /**
   * The step whose metadata began the load: tells a second load of a request from a late report of its first. Without it
   * both look alike.
   */
  readonly step?: number;
}

/** A block whose load failed. */
export interface InvalidBlock {
  readonly block: number;
  /** Whose load; without it, of whichever loads were to fill the block. */
  readonly handle?: number;
}

/** What the worker side reports in one step. */
export interface ConnectorOutput {
  /** Loads that ended, failed ones too: nothing writes the blocks of the request any more. */
  readonly finishedReceiving?: readonly TransferReport[];
  /** Nothing reads the blocks of the request any more. */
  readonly finishedSending?: readonly TransferReport[];
  /** No later than the report in `finishedReceiving`; of synchronous loads with the step that was to read them. */
  readonly invalidBlocks?: readonly InvalidBlock[];
  /** Loads that failed as a whole, where blocks are not known (`get_transfer_results`); also in `finishedReceiving`. */
  readonly failedReceiving?: readonly TransferReport[];
}

/**
 * Reference counts for connectors with `protection: 'pin'`: blocks with a pin are not reused. To be called in a method of the
 * connector, or between calls of the scheduler: of anywhere else, for instance a grammar, a log cannot tell the place.
 */
export interface BlockPins {
  /** One pin more for each block; a free one leaves the free queue. @throws ERR_BLOCKSTEP_BAD_ARG for what is no block */
  pin(blocks: Int32Array): void;
  /** One pin less for each. @throws ERR_BLOCKSTEP_BAD_ARG for a block that has none */
  unpin(blocks: Int32Array): void;
}

/** Scheduler side. `s` below is a step, `R` a request. */
export interface SchedulerConnector<Metadata = unknown> {
  /** Default `own`. */
  readonly protection?: Protection;
  /**
   * The ranks of each child that report its transfers, by child (vLLM get_finished_count). A child that is silent on some
   * ranks says so here; a rank that was declared and stays silent costs the request its deadline. Default [[0]].
   */
  readonly reporters?: readonly (readonly number[])[];
  /** Once, before any other method, if `protection` is `pin` (vLLM bind_gpu_block_pool). */
  bindPins?(pins: BlockPins): void;
  /** Once per incarnation, when it is added. */
  onNewRequest?(request: Request): void;
  /**
   * At admission, while nothing of R is computed; possibly in many steps (when it answers null, or R does not fit), and
   * again after a preemption. Should have no side effect: R may die before its allocation, then `requestFinished` releases
   * what was taken here. What can be transferred once only must be offered once only. A count too large reads KV that was
   * never written. `numLocalTokens` + the answer <= R's tokens; of a synchronous load the last token is computed anyway.
   */
  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match;
  /**
   * After each successful admission, with every block of R; for an asynchronous load twice, the second time with 0, and
   * again after a preemption. Zero external tokens must not start a load.
   * @param blocks the caller's to keep
   */
  updateStateAfterAlloc(request: Request, blocks: Int32Array, numExternalTokens: number): void;
  /**
   * At the end of every schedule, of empty ones too. What it returns goes to the workers with the plan. It must not change
   * the plan. A load that is begun here may write only when step `plan.step - 1` has been executed (`notBefore`): blocks
   * that were freed under a step in flight are still written by it.
   * If it throws, the loads of this plan never begin: they count as failed.
   */
  buildMetadata(plan: Plan): Metadata;
  /** In every update with connector output, after the step's tokens and before the reports in it are looked at. */
  updateConnectorOutput?(output: ConnectorOutput): void;
  /**
   * Exactly once per incarnation, also of one that was never scheduled, before its blocks go back; `blocks` is empty if it
   * holds none. An abort normally means "do not send". With a load outstanding the request keeps its blocks anyway.
   * If it throws, it counts as having answered true, for every child.
   */
  requestFinished(request: Request, reason: FinishReason, blocks: Int32Array): Finished;
  /**
   * The request must deliver its KV (vLLM requires_kv_delivery): if it stops after it was preempted, its last token is
   * dropped and it is computed again, so that there are blocks to send.
   */
  requiresKvDelivery?(request: Request): boolean;
  /**
   * An abort of a request that has finished and whose blocks the connector owns (only with `reclaim: 'on-confirmation'`, once): stop
   * sending, then report it in `finishedSending` as ever. Its blocks stay until that comes.
   */
  cancelSending?(request: Request): void;
  /**
   * False: transfers are pending and the tier kept its content. Undefined: it has nothing to reset. Called only if asked
   * for, and only when the local cache was reset.
   */
  resetCache?(): boolean | undefined;
  /** True keeps the engine stepping although nothing can be scheduled. */
  hasPendingWork?(): boolean;
  /** Once, with the scheduler. */
  shutdown?(): void;
}

/** When a step's loads may write. */
export interface WorkerStep {
  readonly step: number;
  /** A load of this step may write its blocks once every step up to this one was executed; see `onStepSettled`. */
  readonly notBefore: number;
}

/** What became of a step whose blocks may be stored. */
export interface StoreStep {
  readonly step: number;
  /** Handles of the requests for which the step computed nothing, because it or their row failed: nothing to store. */
  readonly failed: readonly number[];
}

/**
 * Worker side, one per rank, in the order in which one step calls it. With nothing to compute the same calls run without
 * a forward, so transfers progress while the engine steps. No method may wait: what takes time ends in a report. A method
 * that throws is counted, and the loads of the step's plan count as failed on this rank.
 */
export interface WorkerConnector<Metadata = unknown> {
  /**
   * Before any block of this step may be overwritten, and when the stores of every step before it have begun: those of the
   * requests that gave their blocks back since, named by handle, must be over when it returns (`Lane.flush`).
   */
  handlePreemptions?(metadata: Metadata, released: readonly number[]): void;
  /**
   * Before the step is executed. Synchronous loads must have written when it returns, or the executor must wait for them
   * (`waitForLayerLoad`); a step with such loads is executed only when every step before it has been.
   */
  startLoads?(metadata: Metadata, step: WorkerStep): void;
  /** For executors that load layer by layer; the engine never calls it. */
  waitForLayerLoad?(layer: number): void | PromiseLike<void>;
  /** For executors that save layer by layer; the engine never calls it. */
  saveLayer?(layer: number): void;
  /**
   * After the step was executed and updated: stores read the blocks from here on. Requests that end before keep them only with
   * `own` or `pin`. With `fence` and steps in flight a block may have been given to a step that runs already, so such a
   * connector begins what a step computed in `startLoads` of a plan that was made after its update.
   */
  startStores?(metadata: Metadata, step: StoreStep): void;
  /** Every step up to this one was executed: loads that waited for it may write. */
  onStepSettled?(step: number): void;
  /**
   * Once in every round of the engine: what ended since the last call.
   * @param finished handles of the requests that finished since then; what is reported as sent was among them, now or
   * earlier
   */
  getFinished(finished: readonly number[]): ConnectorOutput | null;
  /** The engine is disposed: nothing may write afterwards. */
  shutdown?(): void;
}
