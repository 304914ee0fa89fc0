import { Anomalies } from '../../base/anomalies.js';
import { BoundedSet } from '../../base/collections/bounded-set.js';
import { type Core, slotOf } from '../../core/core.js';
import { AskedBorrower } from '../borrow/ask-borrower.js';
import { AskedConnector, type ConnectorLog } from '../connector/ask-connector.js';
import type { EventGroup } from '../events/kv-event-words.js';
import { ToldKvEvents } from '../events/told-kv-events.js';
import { groupsOf, type KvGroups } from '../options/kv-groups.js';
import {
  dropsLastHit,
  numLookaheadTokens,
  poolTokens,
  type RuledConfig,
  wholeStepTokens,
} from '../options/options.js';
import { type LetGo, letGoBy, type StepLetGo } from '../plan/let-go.js';
import { NEVER, Plan } from '../plan/plan.js';
import { StepOutputs } from '../plan/step-outputs.js';
import type { ParsedResult } from '../plan/step-result.js';
import { AskedGrammars, type GrammarLog } from '../request/ask-grammar.js';
import { Outstanding, type OutstandingKind } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { RequestLimits } from '../request/stop-conditions.js';
import { StepAdapters } from './adapters.js';
import { Backlog } from './backlog.js';
import { Counters } from './counters.js';
import { DeadlineHeap } from './deadline-heap.js';
import { PinCounts } from './pin-counts.js';
import { Queues } from './queues.js';

/**
 * The whole state of a scheduler, shared by the passes that read and write it. It decides nothing.
 *
 * Invariants: `requests` holds exactly the unfinished incarnations, each in the container that it
 * names. `draining` and `quarantined` hold the finished requests whose blocks are still in use,
 * each in one of the two. `bySlot` holds all of them, by slot.
 */
export class SchedulerState {
  readonly config: RuledConfig;
  readonly core: Core;
  readonly queues: Queues;
  readonly anomalies: Anomalies;
  readonly counters = new Counters();
  readonly backlog = new Backlog();
  /** Unfinished requests by external id, in the order in which they were added. */
  readonly requests = new Map<string, Request>();
  /** Finished requests whose blocks are still used by something whose end is awaited. */
  readonly draining = new Set<Request>();
  /** Requests of `draining` that may have a row, in the order in which they finished. */
  readonly drainingRows = new Set<Request>();
  /**
   * Finished requests whose blocks are in use without an awaited end, because a use was not
   * reported done in time.
   */
  readonly quarantined = new Set<Request>();
  /**
   * Handles of requests whose uses a fence has ended. Further reports about them are late, and not
   * an error.
   */
  readonly fenced = new BoundedSet<number>(4096);
  /**
   * The requests that have a `load`: it is under way, or it is done and no step has reached the request since.
   * `queues.loading` has those whose load is under way.
   */
  readonly withLoad = new Set<Request>();
  /** Every request with a use of its blocks besides its own, including unfinished ones. */
  readonly usedRequests = new Set<Request>();
  readonly connector: AskedConnector | null;
  /** The borrowing adapter; null = none. */
  readonly borrower: AskedBorrower | null;
  readonly grammars: AskedGrammars;
  /** The subscriber of prefix cache changes; null = none. */
  readonly kvEvents: ToldKvEvents | null;
  /** The KV cache groups; without the option `kvGroups` one. */
  readonly groups: KvGroups;
  readonly adapters: StepAdapters;
  /** The connector's pins. */
  readonly pins = new PinCounts();
  /** Requests whose connector failed when they were added, or that a borrowing adapter failed: the next step ends them. */
  readonly doomed: Request[] = [];
  /** The incarnation that has each slot now, including finished ones that hold blocks. */
  readonly bySlot: (Request | undefined)[] = [];
  /** The last handle that was given out for each slot. */
  readonly lastHandles: number[] = [];
  /** Plans with tokens that were scheduled and not updated yet, oldest first; at most `pipelineDepth`. */
  readonly inFlight: Plan[] = [];
  /**
   * The plan that is being made, or whose failures are being processed, so that its tokens are not
   * settled; null = neither.
   */
  openPlan: Plan | null = null;
  /** The plan objects, one per frame of the exchange buffer. They are reused. */
  readonly plans: readonly Plan[];
  readonly outputs: StepOutputs;
  /** External ids of the requests that finished since the last plan. An id can occur twice. */
  finishedIds: string[] = [];
  /** Handles of the same requests, in the same order. */
  finishedHandles: number[] = [];
  /**
   * With a connector: handles of requests that released their blocks since the last plan, and
   * continue.
   */
  releasedHandles: number[] = [];
  /** Blocks that plans without tokens dropped since the oldest plan in flight was made. */
  readonly letGoBetween: StepLetGo[] = [];
  /**
   * With protection `own`: blocks that requests dropped when they ended, since the last plan; see
   * `Plan.droppedBlocks`.
   */
  droppedAtEnd: number[] = [];
  /** With `preemptedIds` sinceLast: requests that a forced reset has preempted since the last plan. */
  resetVictims: Request[] = [];
  /**
   * Requests that finished outside an update. Their rows with a finish reason are published with
   * the next update.
   */
  readonly unreported: Request[] = [];
  /** Sessions that continued after an answer ended in the last update. */
  readonly continued: Request[] = [];
  /**
   * With `loadReservation` and a connector: the requests that have begun to compute or to load their tokens, and need more blocks for the rest.
   */
  readonly prefills = new Set<Request>();
  /**
   * With `fenceFrees`: blocks that are freed when a number of plans with tokens has been updated,
   * oldest first.
   */
  readonly fencedFrees: { id: string; blocks: Int32Array; after: number }[] = [];
  /** Plans with tokens that were scheduled so far. */
  numScheduledPlans = 0;
  /** With `grammarFailures` update: requests whose grammar failed, which the next update ends. */
  readonly failedGrammars = new Set<Request>();
  /** Unfinished requests with a grammar. */
  readonly structured = new Set<Request>();
  /** The requests whose waits have a deadline. */
  readonly deadlines = new DeadlineHeap();
  /**
   * True: since the last call of `run` blocks were taken, freed or pinned, other than for entries
   * that the plan got since.
   */
  blocksMoved = false;
  /** With `reportBlocks`: blocks that lost their hashes since the last plan. */
  readonly forgotten = new Set<number>();
  /** The requests that decode in step; null where the options allow none. */
  steady: SteadyDecode | null = null;
  pauseMode: 'none' | 'new' | 'all' = 'none';
  step = 0;
  /** The clock as read at the start of the current call, in milliseconds. */
  now = 0;

  /**
   * True: steps are pipelined, as in vLLM's AsyncScheduler, and outputs of steps in flight count as placeholders.
   */
  readonly pipelined: boolean;
  // These deviations are fields because every step reads them, and an object of all deviations has
  // another shape in each scheduler.
  /** The deviation `endOutgrown`. */
  readonly endsOutgrown: boolean;
  /** The deviation `finalTokenDelivery`, with a connector that asks for it. */
  readonly delivers: boolean;
  /** Most draft tokens of a request; 0 without speculative decoding. */
  readonly maxDrafts: number;
  /**
   * Whether `NativeCore.run` receives the tokens that steps in flight compute; see the rule
   * `windowBasis`.
   */
  readonly keepsInFlight: boolean;
  /** See `numLookaheadTokens`. */
  readonly lookahead: number;
  /** Blocks that an admission leaves free while others run; see `watermark`. */
  readonly watermarkBlocks: number;
  /** Whether a rule needs `Request.isPrefilling`. */
  readonly notesPrefills: boolean;
  /** See `dropsLastHit`. */
  readonly dropLastHit: boolean;
  /**
   * The maximum number of tokens that one request can ever have KV slots for: the model's length,
   * or the pool if that is smaller.
   */
  readonly slotLimit: number;
  /** See the function of this name. */
  readonly wholeStepTokens: number;
  /** The step that scheduled each slot last; `NEVER` at first and after a forced preemption. */
  lastSteps: Int32Array = new Int32Array(64);
  /** Draft tokens of each slot; those of slot s start at index s * maxDrafts. */
  drafts: Int32Array = new Int32Array(0);

  /** @param log the log for the answers of grammars and of the connector; null without a log */
  constructor(config: RuledConfig, core: Core, log: (GrammarLog & ConnectorLog) | null) {
    this.config = config;
    this.core = core;
    this.anomalies = new Anomalies(config.strict);
    this.connector = config.connector && new AskedConnector(config.connector, this.anomalies, log);
    this.borrower = config.borrower && new AskedBorrower(config.borrower, this.anomalies);
    this.grammars = new AskedGrammars(this.anomalies, log);
    this.kvEvents =
      config.kvEvents && new ToldKvEvents(config.kvEvents, core, this.anomalies, eventGroups(config));
    this.groups = groupsOf(config);
    this.adapters = new StepAdapters(config);
    this.pipelined = config.pipelineDepth > 1;
    this.maxDrafts = config.numSpeculativeTokens;
    this.keepsInFlight = this.pipelined && config.kvGroups !== null && config.windowBasis === 'processed';
    this.lookahead = numLookaheadTokens(config);
    this.watermarkBlocks = Math.floor(config.watermark * config.numBlocks);
    this.notesPrefills = config.padDecode || (config.loadReservation && config.connector !== null);
    this.dropLastHit = dropsLastHit(config);
    const { maxModelLen, deviations } = config;
    this.endsOutgrown = deviations.endOutgrown;
    this.delivers = deviations.finalTokenDelivery && this.connector?.methods.requiresKvDelivery !== undefined;
    this.slotLimit = deviations.endOutgrown ? Math.min(maxModelLen, poolTokens(config)) : maxModelLen;
    this.wholeStepTokens = wholeStepTokens(config);
    this.queues = new Queues(config.policy);
    this.plans = this.core.frames.map(
      (frame) => new Plan(frame, this.maxDrafts, deviations.skipEndedBitmasks),
    );
    this.outputs = new StepOutputs(config.maxNumSeqs);
  }

  /** The limits that the configuration and the clock add to a new request. */
  requestLimits(): RequestLimits {
    const { maxModelLen, deviations } = this.config;
    return {
      maxModelLen,
      fullAt: deviations.endOutgrown ? maxModelLen : Number.MAX_SAFE_INTEGER,
      now: this.now,
    };
  }

  /** The request that a handle names, while it is unfinished or holds blocks; undefined if the handle is stale. */
  incarnation(handle: number): Request | undefined {
    const request = typeof handle === 'number' ? this.bySlot[slotOf(handle)] : undefined;
    return request?.handle === handle ? request : undefined;
  }

  /**
   * Registers a use of a request's blocks that begins now; `releaseIfDrained` notices its end. @returns false if it
   * is registered
   */
  addUse(request: Request, kind: OutstandingKind, owner: string): boolean {
    request.outstanding ??= new Outstanding();
    if (!request.outstanding.add(kind, owner, this.now)) return false;
    this.usedRequests.add(request);
    return true;
  }

  /** The blocks that this step and later ones have dropped, up to the last one in flight. */
  letGoSince(step: number): LetGo[] {
    const plans: StepLetGo[] = [...this.inFlight, ...this.letGoBetween];
    return plans.filter((each) => each.step >= step).flatMap(letGoBy);
  }

  /** Puts a plan with tokens in flight: it waits for its update after the earlier plans. */
  putInFlight(plan: Plan): void {
    plan.awaitsUpdate = true;
    plan.inFlight = true;
    this.inFlight.push(plan);
    this.numScheduledPlans++;
  }

  /** The oldest plan in flight has been executed. */
  removeFromFlight(plan: Plan): void {
    plan.awaitsUpdate = false;
    plan.inFlight = false;
    // With only one plan, `pop` takes a third of the time.
    if (this.inFlight.length === 1) this.inFlight.pop();
    else this.inFlight.shift();
  }

  /** Remembers a new incarnation, and makes room for its slot in the columns by slot. */
  track(request: Request): void {
    this.requests.set(request.id, request);
    if (request.grammar !== null) this.structured.add(request);
    this.bySlot[request.slot] = request;
    this.lastHandles[request.slot] = request.handle;
    this.lastSteps = grow(this.lastSteps, request.slot + 1);
    this.lastSteps[request.slot] = NEVER;
    this.drafts = grow(this.drafts, (request.slot + 1) * this.maxDrafts);
  }
}

/** The requests that decode in step, as the passes see them; see `Steady`. */
export interface SteadyDecode {
  /** Not 0: requests have stopped with the last tokens. */
  readonly stopped: number;
  check(): void;
  plan(plan: Plan): number;
  breakUpIn(plan: Plan): void;
  apply(plan: Plan, result: ParsedResult, outputs: StepOutputs, now: number): number;
  dropStopped(): void;
}

/** The properties of each group for KV cache events. */
function eventGroups({ kvGroups, blockSize, kvEvents }: RuledConfig): EventGroup[] {
  if (kvGroups === null) return [{ blockSize, kind: kvEvents?.kind ?? 'full', window: null }];
  return kvGroups.list.map(({ type, blockSize: size, window }) => ({
    blockSize: size,
    kind: type,
    window: type === 'sliding' ? window : null,
  }));
}

function grow(column: Int32Array, length: number): Int32Array {
  if (length <= column.length) return column;
  const grown = new Int32Array(Math.max(length, 2 * column.length));
  grown.set(column);
  return grown;
}
