import type { StepTables } from '../../../core/tables.js';
import type { ExecutorPlan } from '../../../engine/executor/executor.js';
import { EntryKind } from '../../../scheduler/plan/plan.js';
import type { NativeAnswer, NativeContext } from '../native/binding.js';

/** The place of one step's answer among the answers that came together. */
export interface AnswerPlace {
  readonly answer: NativeAnswer;
  /** The step's first place in `answer.tokens` and `answer.logprobs`. */
  tokensAt: number;
  logprobsAt: number;
}

/**
 * Steps that llama.cpp computes ahead of their plans: after a step of decodes alone, each request
 * decodes the token that it just got. The engine still plans every step. A plan for exactly the next
 * step of the chain is answered without another call. Every other plan ends the chain.
 *
 * A chain stays inside the blocks that its requests hold, and inside their limits of length.
 */
export class Chain {
  readonly #context: Pick<NativeContext, 'next' | 'endChain'>;
  readonly #blockSize: number;
  /** Steps that were answered, and steps that were computed for nothing. */
  readonly counts = { chainedSteps: 0, droppedSteps: 0 };
  #isOpen = false;
  #numEntries = 0;
  /** Steps since the step in front of the chain. */
  #numSteps = 0;
  /** [entry] of the step in front of the chain. */
  readonly #handles: Float64Array;
  readonly #computed: Int32Array;
  readonly #samplers: Int32Array;
  /** [entry] the token of the last step. */
  readonly #tokens: Int32Array;
  /** The answers that came last; `#left` of their steps were not asked for yet. */
  #place: AnswerPlace | null = null;
  #left = 0;

  constructor(context: Pick<NativeContext, 'next' | 'endChain'>, maxNumSeqs: number, blockSize: number) {
    this.#context = context;
    this.#blockSize = blockSize;
    this.#handles = new Float64Array(maxNumSeqs);
    this.#computed = new Int32Array(maxNumSeqs);
    this.#samplers = new Int32Array(maxNumSeqs);
    this.#tokens = new Int32Array(maxNumSeqs);
  }

  /** Whether a chain was begun, and not all of its steps have been taken. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * The most steps that may follow a plan in which all entries decode; 0: none, or an entry fails.
   * @param errors [entry] other than 0: the entry fails
   */
  mostAfter(plan: ExecutorPlan, errors: Uint8Array): number {
    let most = this.#blockSize;
    for (let i = 0; i < plan.numRequests && most > 0; i++) {
      const end = plan.numComputedTokens[i] + 1;
      const room = Math.min(plan.numBlocks[i] * this.#blockSize, plan.requests[i].lengthLimit - 1);
      most = errors[i] === 0 ? Math.min(most, room - end) : 0;
    }
    return Math.max(most, 0);
  }

  /** Begins a chain behind the step of a plan. @param samplers [entry] the number of its sampler */
  begin(plan: ExecutorPlan, samplers: Int32Array): void {
    this.#isOpen = true;
    this.#place = null;
    this.#left = 0;
    this.#numSteps = 0;
    this.#numEntries = plan.numRequests;
    for (let i = 0; i < plan.numRequests; i++) {
      this.#handles[i] = plan.requests[i].handle;
      this.#computed[i] = plan.numComputedTokens[i];
      this.#samplers[i] = samplers[i];
    }
  }

  /** Whether a plan is for exactly the next step of the chain. */
  fits(plan: ExecutorPlan, tables: StepTables, samplers: Int32Array): boolean {
    if (plan.numRequests !== this.#numEntries || plan.totalTokens !== this.#numEntries) return false;
    if (plan.finishedHandles.length > 0 || plan.preemptedHandles.length > 0) return false;
    const ahead = this.#numSteps;
    for (let i = 0; i < this.#numEntries; i++) {
      const isNext =
        plan.requests[i].handle === this.#handles[i] &&
        plan.numComputedTokens[i] === this.#computed[i] + ahead &&
        plan.kinds[i] === EntryKind.running &&
        plan.numNewBlocks[i] === 0 &&
        plan.maxOutputTokens[i] === 1 &&
        samplers[i] === this.#samplers[i] &&
        tables.inputIds[tables.queryStart[i]] === this.#tokens[i];
      if (!isNext) return false;
    }
    return true;
  }

  /** Receives answers that came. @returns the place of the next step in them */
  receive(answer: NativeAnswer): AnswerPlace {
    this.#place = { answer, tokensAt: 0, logprobsAt: 0 };
    this.#left = answer.steps;
    return this.#place;
  }

  /** The answer to the next step if it has come, otherwise a promise of it. */
  next(): AnswerPlace | Promise<AnswerPlace> {
    this.counts.chainedSteps++;
    if (this.#left > 0 && this.#place !== null) return this.#place;
    const next = this.#context.next();
    if (next instanceof Promise) return next.then((answer) => this.receive(answer));
    return this.receive(next);
  }

  /** Notes that a step was answered. @param tokens one for each entry; of a step that failed fewer */
  took(tokens: Int32Array): void {
    if (!this.#isOpen) return;
    this.#numSteps++;
    this.#left--;
    this.#tokens.set(tokens);
    if (this.#left === 0 && !this.#place?.answer.goesOn) this.#isOpen = false;
  }

  /** Whether the next step is the last of those that came together. */
  get isLast(): boolean {
    return this.#left <= 1;
  }

  /** Has the chain end with its present step: nobody may want the next one. */
  hasten(): void {
    if (this.#isOpen) this.#context.endChain();
  }

  /** Ends the chain, and drops its answers. @returns resolves when llama.cpp computes nothing more */
  async end(): Promise<void> {
    this.#context.endChain();
    this.#isOpen = false;
    let last = this.#place?.answer ?? null;
    this.counts.droppedSteps += this.#left;
    while (last === null || last.goesOn) {
      last = await this.#context.next();
      this.counts.droppedSteps += last.steps;
    }
  }
}
