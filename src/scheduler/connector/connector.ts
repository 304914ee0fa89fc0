import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { FinishReason } from '../request/status.js';
import type { BlockLists, HandOver, KvView } from './kv-view.js';

/**
 * The connector contract: what moves KV blocks between this engine and elsewhere (vLLM's KVConnectorBase_V1). Two sides
 * that share no memory: `SchedulerConnector` on the scheduler's thread, `WorkerConnector` (one per rank) where the model
 * runs. The scheduler side speaks to the workers by the metadata of each plan; the workers answer by reports and by
 * metadata of their own. `docs/connectors.md` tells the whole story, with an example.
 *
 * The methods of one side are called on one thread, never two at once, and must not call back into the scheduler
 * (ERR_BLOCKSTEP_REENTRANT, thrown into the method), except `abort`. Each call stands inside an exception boundary: a
 * method that throws, or answers what makes no sense, is counted as the anomaly `connector-failed` and costs the request
 * that it was called for, which ends with `error`; never the engine.
 *
 * Requests are named by handle, which never names a later request with the same external id. Block lists are borrowed: they
 * are valid during the call, and a connector that wants to keep one copies it.
 */

/** Who keeps a finished request's blocks from being reused while the connector still reads or writes them. */
export type Protection =
  /** `requestFinished` may answer true, and the request keeps its blocks until the connector reports it. */
  | 'own'
  /** The connector pins blocks by reference count (`BlockPins`) for as long as its jobs use them. */
  | 'pin'
  /** Blocks go back at once; before a step reuses some its workers are told which (`BlockReuse.taken`). */
  | 'fence';

/** Tokens that a connector can bring beyond the local prefix. */
export interface Match {
  /** Tokens beyond the local hit, only those available now; null = ask again in a later step. */
  readonly numTokens: number | null;
  /** They arrive after the step: the request waits and holds its blocks meanwhile. Must be false when numTokens is 0. */
  readonly async: boolean;
  /** The child that will load them, of a connector made of several. Only its reports count. Default 0. */
  readonly child?: number;
  /**
   * With `numTokens` null: the request stands apart until `KvView.wake`, and costs no step anything. Default false: it is
   * asked about in every step. Either wait ends with the deadline `load`.
   */
  readonly wakes?: boolean;
}

/** What a connector decides when a request ended. */
export interface Finished {
  /**
   * The connector owns the blocks until it has reported the request in `finishedSending`, each rank exactly once. Only with
   * protection `own`.
   */
  readonly delayFree: boolean;
  /** The children that will report, of a connector made of several. Default [0]. Read only if `delayFree`. */
  readonly children?: readonly number[];
  /**
   * Goes to the client with its last output, for instance where a decode engine finds the blocks: it gives them to that
   * engine as `RequestInput.transferParams`. A lease in it is a duration, never an instant: two machines have two clocks
   * (vLLM #50326).
   */
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

/** A block whose load failed. A block id names one block of one group, since all groups take blocks from one pool. */
export interface InvalidBlock {
  readonly block: number;
  /** Whose load; without it, of whichever loads of the child were to fill the block. */
  readonly handle?: number;
  /** The child whose load it is. Default 0. A child that does not load the block fails nobody's load. */
  readonly child?: number;
}

/** What a worker says to the scheduler side of its connector. */
export interface WorkerMetadata<Said = unknown> {
  readonly rank: number;
  readonly metadata: Said;
}

/** What the workers report in one round. */
export interface ConnectorOutput<Said = unknown> {
  /**
   * Loads that ended, failed ones too: nothing writes the blocks of the request any more. Under an engine also synchronous
   * loads, no later than in the round that takes the answer of their step: a rank that is silent until then has failed to
   * load. A scheduler that is driven without an engine takes silence about a synchronous load for success, as vLLM does.
   */
  readonly finishedReceiving?: readonly TransferReport[];
  /** Nothing reads the blocks of the request any more. */
  readonly finishedSending?: readonly TransferReport[];
  /** No later than the report in `finishedReceiving`; of synchronous loads with the step that was to read them. */
  readonly invalidBlocks?: readonly InvalidBlock[];
  /**
   * Ids of blocks whose KV is gone, whoever wrote it: the executor says so. Whoever holds one of them computes it again, or ends
   * with `error`, as `loadFailurePolicy` says.
   */
  readonly lostBlocks?: readonly number[];
  /** Loads that failed as a whole, where blocks are not known (`get_transfer_results`); also in `finishedReceiving`. */
  readonly failedReceiving?: readonly TransferReport[];
  /**
   * Transfers that are not over, and whose peer is alive: the deadline of their request starts again. A quarantined request
   * is waited for again.
   */
  readonly renewed?: readonly TransferReport[];
  /** What workers say to the scheduler side, in the order of the ranks. It decides nothing here. */
  readonly workerMetadata?: readonly WorkerMetadata<Said>[];
}

/** What one worker answers in one round. */
export interface WorkerOutput<Said = unknown> extends Omit<ConnectorOutput, 'workerMetadata' | 'lostBlocks'> {
  /** For `SchedulerConnector.updateConnectorOutput`, which gets it in this round. Undefined: nothing. */
  readonly metadata?: Said;
}

/**
 * The metadata of a plan of which some children could make none (`buildMetadata`): the loads of these children that the plan
 * began never begin, and count as failed. The others go on with the metadata in it.
 */
export class PartialMetadata<Metadata = unknown> {
  constructor(
    readonly metadata: Metadata,
    readonly failedChildren: readonly number[],
  ) {}
}

/**
 * Reference counts for connectors with protection `pin`: blocks with a pin are not reused. To be called in a method of the
 * connector, or between calls of the scheduler: of anywhere else, for instance a grammar, a log cannot tell the place.
 */
export interface BlockPins {
  /** One pin more for each block; a free one leaves the free queue. @throws ERR_BLOCKSTEP_BAD_ARG for what is no block */
  pin(blocks: Int32Array): void;
  /** One pin less for each. @throws ERR_BLOCKSTEP_BAD_ARG for a block that has none */
  unpin(blocks: Int32Array): void;
}

/**
 * Scheduler side. `Metadata` goes from here to the workers, `Said` comes back from them. `s` below is a step, `R` a request.
 */
export interface SchedulerConnector<Metadata = unknown, Said = unknown> {
  /** How it protects blocks; several where it is made of several. Default `own`. */
  readonly protection?: Protection | readonly Protection[];
  /**
   * The ranks of each child that report its transfers, by child (vLLM get_finished_count). A child that is silent on some
   * ranks says so here; a rank that was declared and stays silent costs the request its deadline. Default: one child, all
   * ranks (`SchedulerOptions.numRanks`).
   */
  readonly reporters?: readonly (readonly number[])[];
  /** Once, before any other method: hashes, tokens and blocks of requests, to be read whenever a method is called. */
  bind?(view: KvView): void;
  /** Once, before any other method but `bind`, if it protects blocks by `pin` (vLLM bind_gpu_block_pool). */
  bindPins?(pins: BlockPins): void;
  /** Once per incarnation, when it is added. `R.transferParams` is what its client gave for the connector. */
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
   */
  updateStateAfterAlloc(request: Request, blocks: BlockLists, numExternalTokens: number): void;
  /**
   * At the end of every schedule, of empty ones too. What it returns goes to the workers with the plan. It must not change
   * the plan. A load that is begun here may write only when step `WorkerStep.notBefore` has been executed: blocks that were
   * freed under a step in flight are still written by it.
   * If it throws, the loads of this plan never begin: they count as failed. See `PartialMetadata` for some of them.
   */
  buildMetadata(plan: Plan): Metadata | PartialMetadata<Metadata>;
  /** In every update with connector output, after the step's tokens and before the reports in it are looked at. */
  updateConnectorOutput?(output: ConnectorOutput<Said>): void;
  /**
   * Exactly once per incarnation, also of one that was never scheduled, before its blocks go back, and when the engine is
   * disposed. An abort normally means "do not send". With a load outstanding the request keeps its blocks anyway.
   * If it throws, it counts as having answered true, for every child.
   * @param handOver its blocks and how much of its KV stands there; steps in flight may still be writing it
   */
  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished;
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

/** Blocks that change hands before a step. */
export interface BlockReuse {
  /**
   * Handles of the requests that gave their blocks back since the plan before and go on: preempted ones, and those that
   * waited with blocks which others needed. Each is named once for each time that it did.
   */
  readonly released: readonly number[];
  /**
   * With protection `fence`: the blocks that this step, or a load that its plan begins, takes from the pool; blocks of all
   * groups in one list. They may be those of a request that has ended. Empty with any other protection.
   */
  readonly taken: Int32Array;
}

/** What became of a step whose blocks may be stored. */
export interface StoreStep {
  readonly step: number;
  /**
   * Handles of the requests whose KV of this step must not be stored: it was not computed, or from KV that is not good, or
   * its blocks may be somebody else's by now (`Plan.failedHandles`).
   */
  readonly failed: readonly number[];
}

/**
 * Worker side, one per rank, in the order in which one step calls it. With nothing to compute the same calls run without
 * a forward, so transfers progress while the engine steps. No method may wait but `handlePreemptions`: what takes time ends
 * in a report. A method that throws is counted, and the loads of the step's plan count as failed on this rank.
 */
export interface WorkerConnector<Metadata = unknown, Said = unknown> {
  /**
   * Before any block of this step may be overwritten, and when the stores of every step before it have begun. When it returns, the
   * stores of the requests in `released` are over, and every job that reads or writes a block in `taken` (`Lane.flush`).
   * @param metadata undefined if the scheduler side could make none
   */
  handlePreemptions?(metadata: Metadata | undefined, reuse: BlockReuse): void;
  /**
   * Before the step is executed. Synchronous loads must have written when it returns, or the executor must wait for them
   * (`waitForLayerLoad`); a step with such loads is executed only when every step before it has been.
   */
  startLoads?(metadata: Metadata | undefined, step: WorkerStep): void;
  /** For executors that load layer by layer; the engine never calls it. */
  waitForLayerLoad?(layer: number): void | PromiseLike<void>;
  /** For executors that save layer by layer; the engine never calls it. */
  saveLayer?(layer: number): void;
  /**
   * After the step was executed and updated: stores of what it computed read the blocks from here on, but for the requests in
   * `step.failed`. Requests that end before the update keep their blocks only with `own` or `pin`; with `fence` they are
   * named in `failed`.
   */
  startStores?(metadata: Metadata | undefined, step: StoreStep): void;
  /** Every step up to this one was executed: loads that waited for it may write. */
  onStepSettled?(step: number): void;
  /**
   * Once in every round of the engine: what ended since the last call.
   * @param finished handles of the requests that finished since then; what is reported as sent was among them, now or
   * earlier
   */
  getFinished(finished: readonly number[]): WorkerOutput<Said> | null;
  /** The engine is disposed: nothing may write afterwards. */
  shutdown?(): void;
}
