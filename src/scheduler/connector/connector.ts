// The contract of connectors: `SchedulerConnector`, `WorkerConnector`, and their messages.
import type { ConnectorRequest } from '../request/connector-request.js';
import type { FinishReason } from '../request/status.js';
import type { BlockLists, ConnectorPlan, HandOver, KvView } from './kv-view.js';
import type { PartialMetadata } from './partial-metadata.js';

/**
 * The connector contract: a connector moves KV blocks between this engine and other places (vLLM's
 * KVConnectorBase_V1). A connector has two sides that share no memory: `SchedulerConnector` on the
 * scheduler's thread, and one `WorkerConnector` per rank where the model runs. The scheduler side
 * speaks to the workers by the metadata of each plan. The workers answer by reports, and by
 * metadata of their own. `docs/connector-contract.md` has the full description, with an example.
 *
 * The methods of one side are called on one thread, never two at once. They must not call back into
 * the scheduler (ERR_BLOCKSTEP_REENTRANT, thrown into the method), except to `abort`. Each call is
 * inside an exception boundary. A method that throws, or whose answer is invalid, is counted as the
 * anomaly `connector-failed`. It costs at most the request that it was called for, which ends with
 * `error`; never the engine.
 *
 * Requests are named by handle: a handle never names a later request with the same external id.
 * Block lists are borrowed: they are valid during the call, and a connector that needs one longer
 * must copy it.
 */

/**
 * The mechanism that keeps a finished request's blocks from being reused while the connector still
 * reads or writes them.
 */
export type Protection =
  /**
   * `requestFinished` may answer `delayFree`: the request then keeps its blocks until the connector
   * reports it.
   */
  | 'own'
  /** The connector pins blocks by reference count (`BlockPins`) for as long as its jobs use them. */
  | 'pin'
  /**
   * Blocks are freed at once. Before a step reuses blocks, its workers receive their ids
   * (`BlockReuse.taken`).
   */
  | 'fence';

/** The tokens that a connector can load for a request beyond the local prefix. */
export interface Match {
  /** Tokens beyond the local prefix that are available now; null = ask again in a later step. */
  readonly numTokens: number | null;
  /**
   * True: the tokens arrive after the step; the request waits and holds its blocks. Must be false
   * if numTokens is 0.
   */
  readonly async: boolean;
  /**
   * The child of a composite connector that will load the tokens. Only its reports count. Default
   * 0.
   */
  readonly child?: number;
  /**
   * With `numTokens` null. True: the request waits until `KvView.wake`, and costs nothing in each
   * step. False (default): every step asks about it again. Either wait ends with the deadline
   * `load`.
   */
  readonly wakes?: boolean;
}

/** A connector's decision about a request that ended. */
export interface Finished {
  /** True: the connector owns the blocks until every rank has reported the request once (`finishedSending`). Only with `own`. */
  readonly delayFree: boolean;
  /**
   * The children of a composite connector that will report. Default [0]. Read only with
   * `delayFree`.
   */
  readonly children?: readonly number[];
  /**
   * Returned to the client with its last output, for instance the place where a decode engine finds
   * the blocks. The client passes it to that engine as `RequestInput.transferParams`. A lease in it
   * must be a duration and not an instant, because two machines have two clocks (vLLM #50326).
   */
  readonly transferParams?: Readonly<Record<string, unknown>>;
}

/** One rank of one child has completed its work for one request in one direction. */
export interface TransferReport {
  /** Handle of the request whose transfer the report is about. */
  readonly handle: number;
  /** Default 0. */
  readonly child?: number;
  /** Default 0. An engine sets it to the rank of the worker that reports. */
  readonly rank?: number;
  /**
   * The step whose metadata began the load. It distinguishes a second load of a request from a late
   * report of the first.
   */
  readonly step?: number;
  /**
   * In `failedReceiving`, for an asynchronous load. True: the sender has declined, and nothing was
   * written. The request is computed here, even if `loadFailurePolicy` is `fail`.
   */
  readonly declined?: boolean;
}

/** A block whose load failed. A block id names one block of one group, since all groups take blocks from one pool. */
export interface InvalidBlock {
  /** Id of the block. */
  readonly block: number;
  /**
   * The request whose load failed. Without it: any load of the child that was to fill the block.
   */
  readonly handle?: number;
  /**
   * The child whose load failed. Default 0. A report about a block that the child does not load
   * fails no load.
   */
  readonly child?: number;
}

/** A message from a worker to the scheduler side of its connector. */
export interface WorkerMetadata<Said = unknown> {
  /** Rank of the worker, from 0. */
  readonly rank: number;
  /** The worker's `WorkerOutput.metadata`. */
  readonly metadata: Said;
}

/** The reports of the workers in one round. */
export interface ConnectorOutput<Said = unknown> {
  /**
   * Loads that ended, including failed loads: the blocks of the request are no longer written.
   * Under an engine, synchronous loads must be reported too, no later than in the round that
   * processes the answer of their step. A rank that is silent until then counts as failed. A
   * scheduler without an engine treats silence about a synchronous load as success, as vLLM does.
   */
  readonly finishedReceiving?: readonly TransferReport[];
  /** Requests whose blocks are no longer read. */
  readonly finishedSending?: readonly TransferReport[];
  /**
   * Blocks whose load failed. They must be reported no later than the load's `finishedReceiving`,
   * or the answer of the step that reads them.
   */
  readonly invalidBlocks?: readonly InvalidBlock[];
  /**
   * Ids of blocks whose KV is gone, whichever request wrote it, as the executor reports them. A
   * request that holds one of them computes it again, or ends with `error`; `loadFailurePolicy`
   * decides.
   */
  readonly lostBlocks?: readonly number[];
  /**
   * Loads that failed as a whole, if the blocks are not known (`get_transfer_results`). They are
   * also listed in
   * `finishedReceiving`.
   */
  readonly failedReceiving?: readonly TransferReport[];
  /**
   * Transfers in progress whose peer is alive. The request's deadline is restarted, even if it was
   * quarantined.
   */
  readonly renewed?: readonly TransferReport[];
  /**
   * Messages from workers to the scheduler side of the connector, in the order of the ranks. The
   * scheduler does not interpret them.
   */
  readonly workerMetadata?: readonly WorkerMetadata<Said>[];
}

/** The reports of one worker in one round. */
export interface WorkerOutput<Said = unknown> extends Omit<ConnectorOutput, 'workerMetadata' | 'lostBlocks'> {
  /**
   * For `SchedulerConnector.updateConnectorOutput`, which receives it in this round; undefined =
   * nothing.
   */
  readonly metadata?: Said;
}

/**
 * Reference counts for connectors with protection `pin`: a block with a pin is not reused. Call
 * these methods inside a method of the connector, or between two calls of the scheduler. They must
 * not be called from elsewhere, for instance from a grammar, because a log could not record when.
 */
export interface BlockPins {
  /**
   * Adds one pin to each block; a free block leaves the free queue. @throws ERR_BLOCKSTEP_BAD_ARG
   * for an unknown block id
   */
  pin(blocks: Int32Array): void;
  /**
   * Removes one pin from each block. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NOT_PINNED for a
   * block without a pin
   */
  unpin(blocks: Int32Array): void;
}

/** Scheduler side. `Metadata` goes from here to the workers, `Said` comes back. `R` below is a request. */
export interface SchedulerConnector<Metadata = unknown, Said = unknown> {
  /**
   * How the connector protects blocks; several kinds if it consists of several children. Default
   * `own`.
   */
  readonly protection?: Protection | readonly Protection[];
  /**
   * The ranks of each child that report its transfers, by child (vLLM get_finished_count). A child
   * that does not report on every rank must say so here. A declared rank that stays silent costs
   * the request its deadline. Default: one child, all ranks (`SchedulerOptions.numRanks`).
   */
  readonly reporters?: readonly (readonly number[])[];
  /**
   * The hash seed for a scheduler that was given none: 16 bytes that survive a restart. Blocks that
   * an earlier engine stored are then found. Default: none.
   */
  readonly hashSeed?: Uint8Array | null;
  /** Called once, before any other method. The view gives access to hashes, tokens and blocks of requests. */
  bind?(view: KvView): void;
  /** Called once, directly after `bind`, if protection includes `pin` (vLLM bind_gpu_block_pool). */
  bindPins?(pins: BlockPins): void;
  /** Called once per incarnation, when R is added. `R.transferParams` is what its client gave for the connector. */
  onNewRequest?(request: ConnectorRequest): void;
  /**
   * Called when a request with these transfer params was refused and never becomes an R, or when
   * the params are returned (`Engine.giveBack`). The remote resources that they name are not needed
   * here. The params come from a client, unchecked.
   */
  requestRefused?(transferParams: Readonly<Record<string, unknown>>): void;
  /**
   * Called at admission, while nothing of R is computed. It may be called in many steps (when it
   * answers null, or R does not fit), and again after a preemption. It should have no side effect:
   * R may die before its allocation, and then `requestFinished` must release what was reserved
   * here. KV that can be transferred only once must be offered only once. If the count is too
   * large, R reads KV that was never written. `numLocalTokens` + the answer must be <= R's tokens;
   * with a synchronous load the last token is computed in any case.
   */
  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match;
  /**
   * Called after each successful admission, with every block of R. For an asynchronous load it is
   * called twice, the second time with 0 tokens; and again after a preemption. Zero external tokens
   * must not start a load.
   */
  updateStateAfterAlloc(request: ConnectorRequest, blocks: BlockLists, numExternalTokens: number): void;
  /**
   * Called at the end of every schedule, including empty ones. The answer goes to the workers with
   * the plan. It must not change the plan. A load that begins here may write only when step
   * `WorkerStep.notBefore` has been executed. Until then a step in flight may still write blocks
   * that were freed. If it throws, the loads of this plan never begin, and count as failed. If only
   * some children fail, return `PartialMetadata`.
   */
  buildMetadata(plan: ConnectorPlan): Metadata | PartialMetadata<Metadata>;
  /** Called in every update with connector output, after the step's tokens and before the reports are looked at. */
  updateConnectorOutput?(output: ConnectorOutput<Said>): void;
  /**
   * Called exactly once per incarnation, before its blocks are freed, and when the engine is
   * disposed. This includes a request that was never scheduled. An abort normally means "do not
   * send". With a load outstanding the request keeps its blocks in any case. If this method throws,
   * that counts as the answer `delayFree`, for every child.
   * @param handOver the blocks of R and how much of its KV is in them; steps in flight may still be
   * writing it
   */
  requestFinished(request: ConnectorRequest, reason: FinishReason, handOver: HandOver): Finished;
  /**
   * Whether R must deliver its KV (vLLM requires_kv_delivery). If such an R stops after it was
   * preempted, its last token is dropped. It is then computed again, so that there are blocks to
   * send.
   */
  requiresKvDelivery?(request: ConnectorRequest): boolean;
  /**
   * Called at most once, while the connector owns the blocks of the finished R. This happens when R
   * is aborted, with `reclaim: 'on-confirmation'`, or when its blocks are quarantined. Stop
   * sending, then report R in `finishedSending` as usual. Its blocks stay until that report.
   */
  cancelSending?(request: ConnectorRequest): void;
  /**
   * Resets the connector's tier. Called only if the reset was requested and the local cache was
   * reset. True: the tier is empty. False: transfers are pending and the tier kept its content.
   * Undefined: there is nothing to reset.
   */
  resetCache?(): boolean | undefined;
  /** True keeps the engine stepping although nothing can be scheduled. */
  hasPendingWork?(): boolean;
  /** Called once, when the scheduler ends. */
  shutdown?(): void;
}

/** Says when a step's loads may write. */
export interface WorkerStep {
  /** Number of the step whose plan begins the loads. */
  readonly step: number;
  /** A load of this step may write its blocks once every step up to this one was executed; see `onStepSettled`. */
  readonly notBefore: number;
}

/** Blocks that change owners before a step. */
export interface BlockReuse {
  /**
   * Handles of the requests that released their blocks since the previous plan and continue:
   * preempted requests, and waiting requests whose blocks others needed. A request appears once for
   * each time that it released blocks.
   */
  readonly released: readonly number[];
  /**
   * The blocks that this step, or a load that its plan begins, takes from the pool. They are given
   * with protection `fence`, and with `own` if there are KV cache groups; otherwise the list is
   * empty. All groups share one list. They may be blocks of a request that has ended, or that a
   * running request dropped (`Plan.droppedBlocks`).
   */
  readonly taken: Int32Array;
}

/** A step that was executed, and whose blocks may be stored. */
export interface StoreStep {
  /** Number of the step that was executed. */
  readonly step: number;
  /**
   * Handles of the requests whose KV of this step must not be stored (`Plan.failedHandles`). It was
   * not computed, or was computed from wrong KV, or its blocks may belong to others by now.
   */
  readonly failed: readonly number[];
}

/**
 * Worker side of a connector, one per rank. The methods are listed in the order in which one step
 * calls them. When there is nothing to compute, the same methods are called without a forward pass,
 * so that transfers progress while the engine steps. Only `handlePreemptions` may wait; everything
 * else that takes time ends in a report. A method that throws is counted, and the loads of the
 * step's plan count as failed on this rank.
 */
export interface WorkerConnector<Metadata = unknown, Said = unknown> {
  /**
   * Called before any block of this step may be overwritten, and after the stores of every previous
   * step have begun. Two kinds of work must be over when it returns. The first kind is the stores
   * of the requests in `released`. The other is every job that reads or writes a block in `taken`
   * (`Lane.flush`).
   * @param metadata undefined if the scheduler side could not make any
   */
  handlePreemptions?(metadata: Metadata | undefined, reuse: BlockReuse): void;
  /**
   * Called before the step is executed. Synchronous loads must be complete when it returns, or the
   * executor must wait for them (`waitForLayerLoad`). A step with such loads is executed only when
   * every previous step has been.
   */
  startLoads?(metadata: Metadata | undefined, step: WorkerStep): void;
  /** For executors that load layer by layer; the engine never calls it. */
  waitForLayerLoad?(layer: number): void | PromiseLike<void>;
  /** For executors that save layer by layer; the engine never calls it. */
  saveLayer?(layer: number): void;
  /**
   * Called after the step was executed and updated. Stores of the step's KV may read the blocks
   * from now on, except for the requests in `step.failed`. Requests that end before the update keep
   * their blocks only with `own` or `pin`; with `fence` they are in `failed`.
   */
  startStores?(metadata: Metadata | undefined, step: StoreStep): void;
  /** Every step up to this one was executed, so loads that waited for it may write. */
  onStepSettled?(step: number): void;
  /**
   * Called once in every round of the engine, for the transfers that ended since the last call.
   * @param finished requests that finished since the last call, by handle; a request may be
   * reported as sent only after it appeared here
   */
  getFinished(finished: readonly number[]): WorkerOutput<Said> | null;
  /** Called when the engine is disposed. Nothing may be written afterwards. */
  shutdown?(): void;
}
