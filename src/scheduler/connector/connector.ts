// The contract of connectors: `SchedulerConnector`, `WorkerConnector`, and their messages.
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { FinishReason } from '../request/status.js';
import type { BlockLists, HandOver, KvView } from './kv-view.js';
import type { PartialMetadata } from './partial-metadata.js';

/**
 * The connector contract: what moves KV blocks between this engine and elsewhere (vLLM's KVConnectorBase_V1). A
 * connector has two sides that share no memory: `SchedulerConnector` on the scheduler's thread, and one
 * `WorkerConnector` per rank where the model runs. The scheduler side speaks to the workers by the metadata of each
 * plan. The workers answer by reports, and by metadata of their own. `docs/connector-contract.md` tells the whole story, with
 * an example.
 *
 * The methods of one side are called on one thread, never two at once. They must not call back into the scheduler
 * (ERR_BLOCKSTEP_REENTRANT, thrown into the method), except to `abort`. Each call stands inside an exception
 * boundary: a method that throws, or whose answer makes no sense, is counted as the anomaly `connector-failed` and
 * costs at most the request that it was called for, which ends with `error`; never the engine.
 *
 * Requests are named by handle: a handle never names a later request with the same external id. Block lists are
 * borrowed: they are valid during the call, and a connector that wants to keep one copies it.
 */

/** What keeps a finished request's blocks from being reused while the connector still reads or writes them. */
export type Protection =
  /** `requestFinished` may answer `delayFree`: the request then keeps its blocks until the connector reports it. */
  | 'own'
  /** The connector pins blocks by reference count (`BlockPins`) for as long as its jobs use them. */
  | 'pin'
  /** Blocks go back at once. Before a step reuses blocks, its workers are told which ones (`BlockReuse.taken`). */
  | 'fence';

/** What a connector can load for a request beyond the local prefix. */
export interface Match {
  /** Tokens beyond the local prefix that are available now; null = ask again in a later step. */
  readonly numTokens: number | null;
  /** True: they arrive after the step; the request waits and holds its blocks. Must be false if numTokens is 0. */
  readonly async: boolean;
  /** The child that will load them, of a connector made of several. Only its reports count. Default 0. */
  readonly child?: number;
  /**
   * With `numTokens` null. True: the request waits until `KvView.wake`, and costs no step anything. False (default):
   * every step asks about it again. Either wait ends with the deadline `load`.
   */
  readonly wakes?: boolean;
}

/** What a connector decides when a request ended. */
export interface Finished {
  /** True: the connector owns the blocks until every rank has reported the request once (`finishedSending`). Only with `own`. */
  readonly delayFree: boolean;
  /** The children that will report, of a connector made of several. Default [0]. Read only with `delayFree`. */
  readonly children?: readonly number[];
  /**
   * Goes to the client with its last output, for instance where a decode engine finds the blocks; the client gives it
   * to that engine as `RequestInput.transferParams`. A lease in it is a duration, never an instant: two machines have
   * two clocks (vLLM #50326).
   */
  readonly transferParams?: Readonly<Record<string, unknown>>;
}

/** One rank of one child has done everything that it had to do for one request in one direction. */
export interface TransferReport {
  /** Handle of the request whose transfer the report is about. */
  readonly handle: number;
  /** Default 0. */
  readonly child?: number;
  /** Default 0. An engine sets it to the rank of the worker that reports. */
  readonly rank?: number;
  /** The step whose metadata began the load: tells a second load of a request from a late report of the first. */
  readonly step?: number;
  /**
   * In `failedReceiving`, of an asynchronous load. True: whoever was to send has declined, and nothing was written. The
   * request is computed here, also where `loadFailurePolicy` is `fail`.
   */
  readonly declined?: boolean;
}

/** A block whose load failed. A block id names one block of one group, since all groups take blocks from one pool. */
export interface InvalidBlock {
  /** Id of the block. */
  readonly block: number;
  /** The request whose load it is. Without it: of whichever loads of the child were to fill the block. */
  readonly handle?: number;
  /** The child whose load it is. Default 0. A report about a block that the child does not load fails no load. */
  readonly child?: number;
}

/** What a worker says to the scheduler side of its connector. */
export interface WorkerMetadata<Said = unknown> {
  /** Rank of the worker that says it, from 0. */
  readonly rank: number;
  /** What the worker gave as `WorkerOutput.metadata`. */
  readonly metadata: Said;
}

/** What the workers report in one round. */
export interface ConnectorOutput<Said = unknown> {
  /**
   * Loads that ended, failed ones too: nothing writes the blocks of the request any more. Under an engine synchronous
   * loads are reported too, no later than in the round that takes the answer of their step; a rank that is silent
   * until then counts as having failed. A scheduler that is driven without an engine takes silence about a
   * synchronous load for success, as vLLM does.
   */
  readonly finishedReceiving?: readonly TransferReport[];
  /** Requests whose blocks nothing reads any more. */
  readonly finishedSending?: readonly TransferReport[];
  /** Blocks whose load failed: no later than its `finishedReceiving`, or the answer of the step that reads them. */
  readonly invalidBlocks?: readonly InvalidBlock[];
  /**
   * Ids of blocks whose KV is gone, whoever wrote it, as the executor reports. A request that holds one of them
   * computes it again, or ends with `error`, as `loadFailurePolicy` says.
   */
  readonly lostBlocks?: readonly number[];
  /**
   * Loads that failed as a whole, where blocks are not known (`get_transfer_results`). They stand in
   * `finishedReceiving` too.
   */
  readonly failedReceiving?: readonly TransferReport[];
  /** Transfers under way whose peer is alive: the request's deadline starts again, also if it was quarantined. */
  readonly renewed?: readonly TransferReport[];
  /**
   * What workers say to the scheduler side of the connector, in the order of the ranks. The scheduler does not look
   * into it.
   */
  readonly workerMetadata?: readonly WorkerMetadata<Said>[];
}

/** What one worker reports in one round. */
export interface WorkerOutput<Said = unknown> extends Omit<ConnectorOutput, 'workerMetadata' | 'lostBlocks'> {
  /** For `SchedulerConnector.updateConnectorOutput`, which gets it in this round; undefined = nothing. */
  readonly metadata?: Said;
}

/**
 * Reference counts for connectors with protection `pin`: a block with a pin is not reused. To be called in a method
 * of the connector, or between two calls of the scheduler. It must not be called from elsewhere, for instance from a
 * grammar: a log could not tell when.
 */
export interface BlockPins {
  /**
   * Adds one pin to each block; a free block leaves the free queue. @throws ERR_BLOCKSTEP_BAD_ARG for an id of no
   * block
   */
  pin(blocks: Int32Array): void;
  /**
   * Takes one pin from each block. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NOT_PINNED for a block without one
   */
  unpin(blocks: Int32Array): void;
}

/** Scheduler side. `Metadata` goes from here to the workers, `Said` comes back. `R` below is a request. */
export interface SchedulerConnector<Metadata = unknown, Said = unknown> {
  /** How the connector protects blocks; several ways where it is made of several children. Default `own`. */
  readonly protection?: Protection | readonly Protection[];
  /**
   * The ranks of each child that report its transfers, by child (vLLM get_finished_count). A child that does not
   * report on every rank says so here; a declared rank that stays silent costs the request its deadline. Default: one
   * child, all ranks (`SchedulerOptions.numRanks`).
   */
  readonly reporters?: readonly (readonly number[])[];
  /**
   * The hash seed of a scheduler that is given none: 16 bytes, which survive a restart, so that what an earlier engine has stored is found.
   * Default: none.
   */
  readonly hashSeed?: Uint8Array | null;
  /** Called once, before any other method. The view gives access to hashes, tokens and blocks of requests. */
  bind?(view: KvView): void;
  /** Called once, directly after `bind`, if protection includes `pin` (vLLM bind_gpu_block_pool). */
  bindPins?(pins: BlockPins): void;
  /** Called once per incarnation, when R is added. `R.transferParams` is what its client gave for the connector. */
  onNewRequest?(request: Request): void;
  /**
   * Called when a request with these transfer params was refused, so that it never becomes an R, or when somebody gives
   * them back (`Engine.giveBack`). What they name elsewhere is not needed here. They come from a client, unchecked.
   */
  requestRefused?(transferParams: Readonly<Record<string, unknown>>): void;
  /**
   * Called at admission, while nothing of R is computed; possibly in many steps (when it answers null, or R does not
   * fit), and again after a preemption. It should have no side effect: R may die before its allocation, and then
   * `requestFinished` releases what was taken here. What can be transferred only once must be offered only once. A
   * count too large makes R read KV that was never written. `numLocalTokens` + the answer must be <= R's tokens; of a
   * synchronous load the last token is computed anyway.
   */
  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match;
  /**
   * Called after each successful admission, with every block of R; for an asynchronous load twice, the second time
   * with 0 tokens; and again after a preemption. Zero external tokens must not start a load.
   */
  updateStateAfterAlloc(request: Request, blocks: BlockLists, numExternalTokens: number): void;
  /**
   * Called at the end of every schedule, of empty ones too. The answer goes to the workers with the plan. It must not
   * change the plan. A load that is begun here may write only when step `WorkerStep.notBefore` has been executed: a
   * step in flight may still write blocks that were freed meanwhile. If it throws, the loads of this plan never
   * begin, and count as failed; see `PartialMetadata` for some.
   */
  buildMetadata(plan: Plan): Metadata | PartialMetadata<Metadata>;
  /** Called in every update with connector output, after the step's tokens and before the reports are looked at. */
  updateConnectorOutput?(output: ConnectorOutput<Said>): void;
  /**
   * Called exactly once per incarnation, also for one that was never scheduled, before its blocks go back, and when
   * the engine is disposed. An abort normally means "do not send". With a load outstanding the request keeps its
   * blocks anyway. If it throws, that counts as the answer `delayFree`, for every child.
   * @param handOver the blocks of R and how much of its KV is in them; steps in flight may still be writing it
   */
  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished;
  /**
   * Whether R must deliver its KV (vLLM requires_kv_delivery). If so and R stops after it was preempted, its last token is dropped and it is
   * computed again, so that there are blocks to send.
   */
  requiresKvDelivery?(request: Request): boolean;
  /**
   * Called at most once, while the connector owns the blocks of the finished R: when R is aborted, with `reclaim:
   * 'on-confirmation'`, or when its blocks are quarantined. Stop sending, then report R in `finishedSending` as ever. Its
   * blocks stay until that report.
   */
  cancelSending?(request: Request): void;
  /**
   * Resets the connector's tier; called only if that was asked for and the local cache was reset. True: the tier is
   * empty. False: transfers are pending and the tier kept its content. Undefined: there is nothing to reset.
   */
  resetCache?(): boolean | undefined;
  /** True keeps the engine stepping although nothing can be scheduled. */
  hasPendingWork?(): boolean;
  /** Called once, when the scheduler ends. */
  shutdown?(): void;
}

/** When a step's loads may write. */
export interface WorkerStep {
  /** Number of the step whose plan begins the loads. */
  readonly step: number;
  /** A load of this step may write its blocks once every step up to this one was executed; see `onStepSettled`. */
  readonly notBefore: number;
}

/** Blocks that change hands before a step. */
export interface BlockReuse {
  /**
   * Handles of the requests that gave their blocks back since the plan before and go on: preempted ones, and those
   * that waited with blocks which others needed. A request is named once for each time that it gave blocks back.
   */
  readonly released: readonly number[];
  /**
   * With protection `fence`, and with `own` where there are KV cache groups: the blocks that this step, or a load that its plan begins, takes
   * from the pool; of all groups in one list. They may be blocks of a request that has ended, or that a running request let go
   * (`Plan.droppedBlocks`). Empty otherwise.
   */
  readonly taken: Int32Array;
}

/** A step that was executed, whose blocks may be stored. */
export interface StoreStep {
  /** Number of the step that was executed. */
  readonly step: number;
  /**
   * Handles of the requests whose KV of this step must not be stored (`Plan.failedHandles`): it was not computed, or
   * was computed from wrong KV, or its blocks may belong to others by now.
   */
  readonly failed: readonly number[];
}

/**
 * Worker side of a connector, one per rank. Methods stand in the order in which one step calls them. When there is
 * nothing to compute, the same methods are called without a forward pass, so that transfers progress while the engine
 * steps. Only `handlePreemptions` may wait; everything else that takes time ends in a report. A method that throws is
 * counted, and the loads of the step's plan count as failed on this rank.
 */
export interface WorkerConnector<Metadata = unknown, Said = unknown> {
  /**
   * Called before any block of this step may be overwritten, and after the stores of every step before it have begun.
   * When it returns, these must be over: the stores of the requests in `released`, and every job that reads or writes
   * a block in `taken` (`Lane.flush`).
   * @param metadata undefined if the scheduler side could make none
   */
  handlePreemptions?(metadata: Metadata | undefined, reuse: BlockReuse): void;
  /**
   * Called before the step is executed. Synchronous loads must have written when it returns, or the executor must
   * wait for them (`waitForLayerLoad`). A step with such loads is executed only when every step before it has been.
   */
  startLoads?(metadata: Metadata | undefined, step: WorkerStep): void;
  /** For executors that load layer by layer; the engine never calls it. */
  waitForLayerLoad?(layer: number): void | PromiseLike<void>;
  /** For executors that save layer by layer; the engine never calls it. */
  saveLayer?(layer: number): void;
  /**
   * Called after the step was executed and updated. Stores of what the step computed may read the blocks from now on,
   * but not for the requests in `step.failed`. Requests that end before the update keep their blocks only with `own`
   * or `pin`; with `fence` they stand in `failed`.
   */
  startStores?(metadata: Metadata | undefined, step: StoreStep): void;
  /** Every step up to this one was executed: loads that waited for it may write. */
  onStepSettled?(step: number): void;
  /**
   * Called once in every round of the engine, for what ended since the last call.
   * @param finished requests that finished since the last call, by handle; one is reported as sent only after it
   * stood here
   */
  getFinished(finished: readonly number[]): WorkerOutput<Said> | null;
  /** Called when the engine is disposed. Nothing may be written afterwards. */
  shutdown?(): void;
}
