import { Conversation } from './conversation.js';
import type { Asked, Reason, Stops } from './facts.js';

/** Whether the client knows that its request has ended outside of an abort. */
export type Notice = 'none' | 'due' | 'given';

/** The auditor's knowledge of one incarnation, from inputs and answers alone. */
export class Account {
  readonly handle: number;
  readonly asked: Asked;
  /** The conversation of its session; null if the request has none. */
  readonly conversation: Conversation | null;
  /** When its present answer ends, and the tokens before it. */
  stops: Stops;
  numPrompt: number;
  /** An answer of its session has ended in this call, and the session goes on. */
  hasContinued = false;
  /** The time since which the request waits for its grammar; -1 = it does not, or not any more. */
  grammarSince = -1;
  /** The time at which its grammar was asked last whether it is ready; -1 = never. */
  grammarAskedAt = -1;
  /** The time since which the request is queued; -1 = it runs, or waits for its next chunk. */
  queuedSince = -1;
  /**
   * The start of its time limit: its add, or the arrival of the chunk that is answered; -1 = it
   * waits for its next chunk.
   */
  timedSince = -1;
  /** Its grammar failed, and the next update ends it. */
  failsWithUpdate = false;
  /** Its grammar has refused tokens that were generated in this call. */
  wasRefused = false;
  /**
   * The time since which its connector has not decided what it can load; -1 = it has, or was not
   * asked.
   */
  askingSince = -1;
  /** The plan in which it was asked last. */
  askedIn = -1;
  /** Tokens that its grammar was shown and its client was not given yet. */
  shown: number[] = [];
  /** Known tokens that its last entry went to. */
  reached = 0;
  /** Prompt and delivered tokens. */
  numTokens: number;
  reason: Reason | null = null;
  notice: Notice = 'none';
  endedAt = -1;
  /** Times that the connector was told of its end. */
  timesFinished = 0;
  /** The reason that the connector was told. */
  toldReason: Reason | null = null;
  /** `direction:child:rank` of what still uses its blocks, and of what did. */
  readonly uses = new Set<string>();
  readonly ended = new Set<string>();
  /** The requests that used them when it was seen last. */
  usedBy: readonly string[] = [];
  /** Reported as sent before it ended. */
  readonly early = new Set<string>();
  /** Loading, since when. */
  loadingSince = -1;
  loadFailed = false;
  /** The load was only declined: that ends no request. */
  loadDeclined = false;
  /**
   * The request also shares a block that failed for another request, behind which it may be
   * computed again.
   */
  sharesBad = false;
  /** The last wait for a load: when it began, and when the load was over. */
  waitedSince = -1;
  waitedUntil = -1;
  /** Where it was seen last. */
  container: string | null = null;
  /** Its connector failed when it was added. */
  isDoomed = false;
  /** The request was in no plan yet. */
  isNew = true;
  /** Times that it was given blocks. */
  admissions = 0;
  /** The step that admitted it last, or began to load for it. */
  admittedStep = -1;
  /** The request held blocks when it was seen last. */
  hasBlocks = false;
  /**
   * The request was taken out of running and goes on; of a session: since the present answer began,
   * or ever.
   */
  wasPreempted = false;
  wasEverPreempted = false;
  /** The first token of a load that a step itself waits for, and the step. */
  loadFrom: { step: number; tokens: number } | null = null;
  /**
   * Tokens of the last admission whose blocks may have been found in the cache; the tokens of the
   * others got new blocks.
   */
  numFound = 0;
  /** The child of the connector, and the step, that began its last load. */
  loadChild = -1;
  loadStep = -1;
  /** Blocks that its last load fills. */
  loadBlocks: readonly number[] = [];
  /** The reason that may end it with `error`, seen in a call that has not reported it yet. */
  mayFail: string | null = null;
  /** Tokens that steps in flight are expected to bring. */
  expected = 0;
  /** Some of these tokens may be void: the scheduler reports how many are still expected. */
  unsure = false;
  /** If it ends in this call, it does so when the plan was made already. */
  endsLate = false;
  /**
   * The request is to be computed again, since it has no blocks to send: the result of this step
   * for it is void.
   */
  isSentBack = false;
  /** Its connector was asked to stop sending it. */
  isCancelled = false;
  /** The number of the request among all requests of its id, from 1 on. */
  readonly nth: number;
  readonly name: string;

  constructor(handle: number, asked: Asked, nth: number) {
    this.handle = handle;
    this.asked = asked;
    this.numTokens = asked.prompt.length;
    this.conversation = asked.isSession ? new Conversation() : null;
    this.stops = asked;
    this.numPrompt = asked.prompt.length;
    this.nth = nth;
    this.name = `${asked.id}#${nth}`;
  }

  /** The connector has not decided yet. Only time in which each plan asks it counts. */
  asksLater(plan: number, now: number): void {
    if (this.askingSince < 0 || this.askedIn < plan - 1) this.askingSince = now;
    this.askedIn = plan;
  }

  get isLive(): boolean {
    return this.reason === null;
  }

  get numOutputTokens(): number {
    return this.numTokens - this.numPrompt;
  }

  /** Whether anything writes its blocks, by the connector or not. */
  get hasLoad(): boolean {
    for (const key of this.uses) if (key.startsWith('load:')) return true;
    return false;
  }

  /** Whether it waits for a load, or for its turn when that is over. */
  get waitsForLoad(): boolean {
    return this.isLive && this.waitedSince >= 0;
  }

  /** Whether its blocks must stay although it has ended. */
  get holdsOn(): boolean {
    return !this.isLive && this.uses.size > 0;
  }

  /** Why the token just counted ends it, as its client asked; null = it goes on. */
  stopAfter(token: number, maxModelLen: number): 'stop' | 'length' | null {
    const { maxTokens, minTokens, eosTokenId, stopTokenIds } = this.stops;
    if (this.numOutputTokens < minTokens) return this.numTokens >= maxModelLen ? 'length' : null;
    if (token === eosTokenId || stopTokenIds.includes(token)) return 'stop';
    return this.numOutputTokens >= maxTokens || this.numTokens >= maxModelLen ? 'length' : null;
  }
}
