import { BlockstepError } from '../../base/errors.js';
import {
  ADMISSION_WORDS,
  Admission,
  AdmissionFlag,
  Admitted,
  ANSWER_HEAD,
  ANSWER_WORDS,
  Answer,
  ASK_HEAD,
  Ask,
  AskFlag,
  DecisionStop,
} from '../../core/decision.js';
import type { Plan } from '../plan/plan.js';
import type { Prefix } from '../schedule/admission.js';
import { freeSeats, tokensLeft } from '../schedule/line.js';
import { draftsToPad } from '../schedule/padding.js';
import { reservedBlocks } from '../schedule/reserved-blocks.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * A computation that waits for decisions of the GPU. It yields while a decision is in progress, and
 * polls again when it is resumed.
 */
export type Deciding<T> = Generator<undefined, T, undefined>;

/** Replaces the number of hits: the GPU looks them up. */
export const LOOK_UP = -1;

/** Polls of a decision before the event loop gets control: some tens of microseconds. */
const SPINS = 256;

/**
 * The longest wait for one decision, in milliseconds of real time. A GPU that takes longer counts
 * as hung.
 */
const TIMEOUT_MS = 60_000;

/**
 * One round trip to the GPU: a question and its answer. It asks for blocks for entries of a plan,
 * and then for admissions of requests, best first. The GPU decides in order, up to the first that
 * does not fit.
 */
export class GpuQuestion {
  /** The admissions. Answered admissions have their number of hits. */
  readonly admissions: Prefix[] = [];
  readonly #s: SchedulerState;
  readonly #flags: number;
  #ask = new Int32Array(ASK_HEAD + 8 * ADMISSION_WORDS);
  #answer = new Int32Array(ANSWER_HEAD + 8 * ANSWER_WORDS);

  constructor(s: SchedulerState) {
    const { enableChunkedPrefill, reserveFullIsl, admissionLookahead } = s.config;
    this.#s = s;
    this.#flags =
      (enableChunkedPrefill ? AskFlag.chunkedPrefill : 0) |
      (reserveFullIsl ? AskFlag.reserveAll : 0) |
      (admissionLookahead ? AskFlag.aheadAlways : 0) |
      (s.dropLastHit ? AskFlag.dropLastHit : 0);
  }

  /** Forgets the admissions and the answer. */
  clear(): void {
    this.admissions.length = 0;
    this.#answer.fill(0, 0, ANSWER_HEAD);
  }

  /**
   * Lets the GPU decide the plan's entries from index `from` on, and then the admissions.
   * @param tokenBudget limit of `plan.totalTokens`
   * @returns index of the first entry that found no blocks, or the number of entries if all did
   * @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR; the decision is then unknown
   */
  *decide(plan: Plan, from: number, tokenBudget: number): Deciding<number> {
    const { native } = this.#s.core;
    this.#write(plan, tokenBudget);
    for (let at = from; ; ) {
      native.submitDecision(plan.frame, at, plan.numRequests, this.#ask);
      yield* this.#answered();
      at += this.#answer[Answer.numRun];
      // The question had no room for all entries. Admissions that were left out are considered as
      // the next in line.
      if (this.#answer[Answer.stop] !== DecisionStop.batch || at === plan.numRequests) return at;
    }
  }

  /** Why the GPU stopped: a `DecisionStop`. */
  get stop(): number {
    return this.#answer[Answer.stop];
  }

  /** Number of admissions that got their row and their blocks: the first ones of `admissions`. */
  get numAdmitted(): number {
    return this.#answer[Answer.numAdmitted];
  }

  /** Tokens of admission i that this step computes. */
  numTokens(i: number): number {
    return this.#answer[answerAt(i) + Admitted.numTokens];
  }

  /** Blocks in the row of admission i. */
  numBlocks(i: number): number {
    return this.#answer[answerAt(i) + Admitted.numBlocks];
  }

  /** The admission that found no blocks or no row; null if the GPU stopped for another reason. */
  get unfit(): Prefix | null {
    const { stop } = this;
    return stop === DecisionStop.blocks || stop === DecisionStop.rows
      ? this.admissions[this.numAdmitted]
      : null;
  }

  #write(plan: Plan, tokenBudget: number): void {
    const s = this.#s;
    const { queues, config, slotLimit, watermarkBlocks, maxDrafts } = s;
    const { admissions } = this;
    const count = admissions.length;
    if (this.#answer.length < answerAt(count)) {
      this.#ask = new Int32Array(ASK_HEAD + 2 * count * ADMISSION_WORDS);
      this.#answer = new Int32Array(answerAt(2 * count));
    }
    const ask = this.#ask;
    ask[Ask.tokenBudget] = Math.max(0, tokensLeft(s, plan, tokenBudget));
    ask[Ask.requestBudget] = Math.max(0, freeSeats(s));
    ask[Ask.flags] = this.#flags | (queues.running.length > 0 ? AskFlag.othersRun : 0);
    ask[Ask.prefillLimit] = config.longPrefillTokenThreshold;
    ask[Ask.slotLimit] = slotLimit;
    ask[Ask.numAdmissions] = count;
    ask[Ask.draftSlots] = config.draftSlots;
    ask[Ask.padding] = maxDrafts;
    ask[Ask.spareBlocks] = watermarkBlocks;
    ask[Ask.keptBlocks] = 0;
    for (let i = 0; i < count; i++) {
      const { request, fresh, numHits, external } = admissions[i];
      const at = ASK_HEAD + i * ADMISSION_WORDS;
      ask[at + Admission.slot] = request.slot;
      ask[at + Admission.numComputedTokens] = request.numComputedTokens;
      ask[at + Admission.numExternalTokens] = external.numTokens ?? 0;
      ask[at + Admission.numHits] = fresh ? numHits : LOOK_UP;
      const pads = !external.async && draftsToPad(s, plan, request) > 0;
      ask[at + Admission.flags] = external.async ? AdmissionFlag.loadsFirst : pads ? AdmissionFlag.pads : 0;
      // With a connector, each admission is a question of its own.
      if (external.async && config.loadReservation) ask[Ask.keptBlocks] = reservedBlocks(s, request);
    }
  }

  /**
   * Waits until the pending decision has come, and notes the hits that the GPU looked up.
   * @throws ERR_BLOCKSTEP_CUDA after `TIMEOUT_MS`, and the errors of `pollDecision`
   */
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

/** Index in the answer buffer at which the answer to admission i begins. */
function answerAt(i: number): number {
  return ANSWER_HEAD + i * ANSWER_WORDS;
}
