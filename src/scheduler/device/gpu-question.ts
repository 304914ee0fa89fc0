import { BlockstepError } from '../../base/errors.js';
import {
  ADMISSION_WORDS,
  Admission,
  AdmissionFlag,
  Admitted,
  ANSWER_WORDS,
  Answer,
  Ask,
  AskFlag,
  DECISION_HEAD,
  DecisionStop,
} from '../../core/decision.js';
import type { Plan } from '../plan/plan.js';
import type { Prefix } from '../schedule/admission.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** What waits for decisions of the GPU: it yields while one is under way, and goes on when somebody looks again. */
export type Deciding<T> = Generator<undefined, T, undefined>;

/** Hits that nobody knows yet: the GPU looks them up. */
export const LOOK_UP = -1;

/** Looks at a decision that is under way before the event loop has its turn: some tens of microseconds. */
const SPINS = 256;

/** Longest wait for one decision, in milliseconds of real time: a GPU that takes longer hangs. */
const TIMEOUT_MS = 60_000;

/**
 * What the GPU is asked in one round trip, and what it decided: entries of a plan that go on, and requests to be admitted
 * behind them, best first. It answers up to the first that does not fit.
 */
export class GpuQuestion {
  /** The admissions. Those that were answered know their hits. */
  readonly admissions: Prefix[] = [];
  readonly #s: SchedulerState;
  readonly #flags: number;
  #ask = new Int32Array(DECISION_HEAD + 8 * ADMISSION_WORDS);
  #answer = new Int32Array(DECISION_HEAD + 8 * ANSWER_WORDS);

  constructor(s: SchedulerState) {
    const { enableChunkedPrefill, reserveFullIsl } = s.config;
    this.#s = s;
    this.#flags =
      (enableChunkedPrefill ? AskFlag.chunkedPrefill : 0) |
      (reserveFullIsl ? AskFlag.reserveAll : 0) |
      (s.dropLastHit ? AskFlag.dropLastHit : 0);
  }

  /** Forgets the admissions and the answer. */
  clear(): void {
    this.admissions.length = 0;
    this.#answer.fill(0, 0, DECISION_HEAD);
  }

  /**
   * Has the plan's entries from `from` on decided, then the admissions.
   * @returns the first entry whose blocks there are not, or the number of entries
   * @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR: nobody knows what was decided
   */
  *decide(plan: Plan, from: number, tokenBudget: number): Deciding<number> {
    const { native } = this.#s.core;
    this.#write(tokenBudget - plan.totalTokens);
    for (let at = from; ; ) {
      native.submitDecision(plan.frame, at, plan.numRequests, this.#ask);
      yield* this.#answered();
      at += this.#answer[Answer.numRun];
      // More entries than fit into one question. Admissions that were left out have their turn again as the next in line.
      if (this.#answer[Answer.stop] !== DecisionStop.batch || at === plan.numRequests) return at;
    }
  }

  /** Why the GPU went no further: a `DecisionStop`. */
  get stop(): number {
    return this.#answer[Answer.stop];
  }

  get numAdmitted(): number {
    return this.#answer[Answer.numAdmitted];
  }

  /** Tokens of admission i that are to be computed in this step. */
  numTokens(i: number): number {
    return this.#answer[answerAt(i) + Admitted.numTokens];
  }

  /** Blocks of its row. */
  numBlocks(i: number): number {
    return this.#answer[answerAt(i) + Admitted.numBlocks];
  }

  /** The admission that found no blocks or no row; null where it ended for another reason. */
  get unfit(): Prefix | null {
    const { stop } = this;
    return stop === DecisionStop.blocks || stop === DecisionStop.rows
      ? this.admissions[this.numAdmitted]
      : null;
  }

  #write(tokenBudget: number): void {
    const { queues, config, slotLimit } = this.#s;
    const { admissions } = this;
    const count = admissions.length;
    if (this.#answer.length < answerAt(count)) {
      this.#ask = new Int32Array(DECISION_HEAD + 2 * count * ADMISSION_WORDS);
      this.#answer = new Int32Array(answerAt(2 * count));
    }
    const ask = this.#ask;
    ask[Ask.tokenBudget] = tokenBudget;
    ask[Ask.requestBudget] = config.maxNumSeqs - queues.running.length;
    ask[Ask.flags] = this.#flags;
    ask[Ask.prefillLimit] = config.longPrefillTokenThreshold;
    ask[Ask.slotLimit] = slotLimit;
    ask[Ask.numAdmissions] = count;
    for (let i = 0; i < count; i++) {
      const { request, fresh, numHits, external } = admissions[i];
      const at = DECISION_HEAD + i * ADMISSION_WORDS;
      ask[at + Admission.slot] = request.slot;
      ask[at + Admission.numComputedTokens] = request.numComputedTokens;
      ask[at + Admission.numExternalTokens] = external.numTokens ?? 0;
      ask[at + Admission.numHits] = fresh ? numHits : LOOK_UP;
      ask[at + Admission.flags] = external.async ? AdmissionFlag.loadsFirst : 0;
    }
  }

  /** The decision that is under way has come. */
  *#answered(): Deciding<void> {
    const { native } = this.#s.core;
    let until = 0;
    for (let looks = 1; !native.pollDecision(this.#answer); looks++) {
      if (looks < SPINS) continue;
      const now = performance.now();
      if (until === 0) until = now + TIMEOUT_MS;
      else if (now > until) {
        throw new BlockstepError('ERR_BLOCKSTEP_CUDA', `the GPU decided nothing within ${TIMEOUT_MS} ms`);
      }
      yield;
    }
    const numAnswers = this.#answer[Answer.numAnswers];
    for (let i = 0; i < numAnswers; i++) {
      const prefix = this.admissions[i];
      const numHits = this.#answer[answerAt(i) + Admitted.numHits];
      if (prefix.fresh) this.admissions[i] = { ...prefix, numHits };
    }
  }
}

/** Where the answer to admission i begins. */
function answerAt(i: number): number {
  return DECISION_HEAD + i * ANSWER_WORDS;
}
