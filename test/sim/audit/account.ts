import { Conversation } from './conversation.js';
import type { Asked, Reason, Stops } from './facts.js';

/** How a request that ended outside of an abort is told to its client. */
export type Notice = 'none' | 'due' | 'given';

/** The auditor's knowledge of one incarnation, from inputs and answers alone. */
export class Account {
  readonly handle: number;
  readonly asked: Asked;
  /** What is said in its session; null if it is none. */
  readonly conversation: Conversation | null;
  /** When its present answer ends, and the tokens before it. */
  stops: Stops;
  numPrompt: number;
  /** An answer of its session has ended in this call, and it goes on. */
  hasContinued = false;
  /** It waits for its grammar since then; -1 = it does not, or not any more. */
  grammarSince = -1;
  /** Its grammar was asked last at that time whether it is ready; -1 = never. */
  grammarAskedAt = -1;
  /** It stands in the queue since then; -1 = it runs, or waits for its next chunk. */
  queuedSince = -1;
  /** Its time runs since then: it was added, or the chunk came that is answered now; -1 = it waits for its next chunk. */
  timedSince = -1;
  /** Its grammar has refused what was generated in this call. */
  /** Its grammar failed, and the next update ends it. */
  failsWithUpdate = false;
  wasRefused = false;
  /** Its connector cannot say yet what it can load, since then; -1 = it has, or was not asked. */
  askingSince = -1;
  /** The plan in which it was asked last. */
  askedIn = -1;
  /** What its grammar was shown and its client not given yet. */
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
  /** It was only declined: that ends nobody. */
  loadDeclined = false;
  /** It also shares a block that failed for another one, behind which it may be computed again. */
  sharesBad = false;
  /** The last wait for a load: when it began, and when the load was over. */
  waitedSince = -1;
  waitedUntil = -1;
  /** Where it was seen last. */
  container: string | null = null;
  /** Its connector failed when it was added. */
  isDoomed = false;
  /** It was in no plan yet. */
  isNew = true;
  /** Times that it was given blocks. */
  admissions = 0;
  /** The step that admitted it last, or began to load for it. */
  admittedStep = -1;
  /** It held blocks when it was seen last. */
  hasBlocks = false;
  /** It was taken out of running and goes on; of a session: since the present answer began, or ever. */
  wasPreempted = false;
  wasEverPreempted = false;
  /** From which token on a load fills its blocks that a step itself waits for, and the step. */
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
  /** What may end it with `error`, seen in a call that has not said so yet. */
  mayFail: string | null = null;
  /** Tokens that steps in flight are expected to bring. */
  expected = 0;
  /** Some of it may be void: how much is still expected, the scheduler says. */
  unsure = false;
  /** If it ends in this call, it does so when the plan was made already. */
  endsLate = false;
  /**
   * It is to be computed again, since it has no blocks to send: the result of this step for it is
   * void.
   */
  isSentBack = false;
  /** Its connector was asked to stop sending it. */
  isCancelled = false;
  /** Which request of its id it is, from 1 on. */
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

  /** Its connector cannot say yet. Only time in which each plan asks it counts. */
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
