import { badArg } from '../../base/checks.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import type { StepTables } from '../../core/tables.js';
import type {
  Executor,
  ExecutorPlan,
  ExecutorResult,
  SubmittedRequest,
} from '../../engine/executor/executor.js';
import type { ExecutorLimits } from '../../engine/executor/executor-limits.js';
import { makeContext } from './llama-context.js';
import {
  type LlamaExecutorOptions,
  type ResolvedLlamaOptions,
  resolveLlamaOptions,
} from './llama-options.js';
import type { LlamaModel } from './model/llama-model.js';
import type { NativeAnswer, NativeContext } from './native/binding.js';
import { hasGpu } from './native/library.js';
import { LlamaGrammar } from './sampling/llama-grammar.js';
import { Samplers } from './sampling/samplers.js';
import { readChoice } from './sampling/token-choice.js';
import { Adapters } from './step/adapters.js';
import { readAnswer } from './step/answer.js';
import { type AnswerPlace, Chain } from './step/chain.js';
import { Drafts } from './step/drafts.js';
import { Planner } from './step/planner.js';

/**
 * Rows of a call from which llama.cpp's own kernel computes attention on a CPU in tiles
 * (GGML_FA_TILE_Q). Tiles are slow for decodes.
 */
const SPLIT_FROM = 64;

/** Counts of a `LlamaExecutor` since it was made. */
export interface LlamaExecutorStats {
  /** Steps that were begun, and steps that failed as a whole or in part. */
  readonly steps: number;
  readonly failedSteps: number;
  /**
   * Steps that were computed ahead of their plans, behind decodes; and further ones that no plan
   * asked for.
   */
  readonly chainedSteps: number;
  readonly droppedSteps: number;
  /** Tokens that llama.cpp computed. */
  readonly tokens: number;
  /** Blocks whose KV came from the prefix cache, and how many of these the same step computed. */
  readonly hits: number;
  readonly hitsInStep: number;
  /**
   * Tokens of hits that were recomputed, because their cells had been dropped for lack of
   * sequences.
   */
  readonly recomputed: number;
  /**
   * Sequences that keep blocks of ended requests now, and sequences that were dropped because none
   * was left.
   */
  readonly cachedSequences: number;
  readonly sequencesGivenUp: number;
  /** Cells of llama.cpp's cache that hold KV of blocks, and the number of cells. */
  readonly cells: number;
  readonly maxCells: number;
}

/**
 * Runs a model by llama.cpp. The tokens depend on the model alone. Batches, prefix hits, preemption
 * and drafts change only the speed, as far as llama.cpp's arithmetic does not depend on the batch
 * (docs/llama-cpp.md).
 *
 * The KV of all blocks lies in one cache of llama.cpp, of numBlocks x blockSize cells. A thread of
 * the executor computes the steps.
 */
export class LlamaExecutor implements Executor {
  readonly usesTables = true;
  /** The sizes that the executor was made for. */
  readonly limits: Readonly<Required<Omit<ExecutorLimits, 'fixedShape'>>>;
  /** Threads that compute on the CPU. */
  readonly threads: number;
  readonly #options: ResolvedLlamaOptions;
  readonly #context: NativeContext;
  readonly #planner: Planner;
  readonly #samplers: Samplers;
  readonly #adapters: Adapters;
  readonly #drafts: Drafts;
  readonly #chain: Chain;
  /** Whether steps may be computed ahead of their plans. */
  readonly #mayChain: boolean;
  /** [entry] the sampler of each entry of a step, and whether its parameters are invalid. */
  readonly #samplerNumbers: Int32Array;
  readonly #entryErrors: Uint8Array;
  #numSteps = 0;
  #failedSteps = 0;
  #numTokens = 0;
  #broken: Error | null = null;
  #disposed = false;

  private constructor(options: ResolvedLlamaOptions, context: NativeContext) {
    this.#options = options;
    this.threads = options.threads;
    this.#context = context;
    const { model, numBlocks, blockSize, maxNumSeqs, maxNumBatchedTokens } = options;
    const { maxModelLen, numSpeculativeTokens, numSequences } = options;
    const keepsPrefixes = model.info.memory === 'attention';
    this.#planner = new Planner(
      {
        numBlocks,
        blockSize,
        maxBlocks: Math.ceil((maxModelLen + numSpeculativeTokens) / blockSize) + 2,
        numSequences,
        keepsPrefixes,
      },
      {
        batch: batchOf(options),
        outputs: maxNumSeqs * (1 + numSpeculativeTokens),
        splitFrom: splitFromOf(model),
      },
    );
    this.#samplers = new Samplers(context, model.info.vocabSize);
    this.#adapters = new Adapters(model.info.loras, maxNumSeqs);
    this.#drafts = new Drafts(numSpeculativeTokens);
    this.#chain = new Chain(context, maxNumSeqs, blockSize);
    // A state cannot be rolled back, and drafts take the same places.
    this.#mayChain = keepsPrefixes && numSpeculativeTokens === 0;
    this.#samplerNumbers = new Int32Array(maxNumSeqs);
    this.#entryErrors = new Uint8Array(maxNumSeqs);
    this.limits = Object.freeze({
      numBlocks,
      blockSize,
      kvGroups: null,
      maxNumSeqs,
      maxNumBatchedTokens,
      maxModelLen,
      pipelineDepth: 1,
      numSpeculativeTokens,
      canRollBack: keepsPrefixes,
    });
  }

  /**
   * Makes an executor: allocates the KV cache and working memory.
   * @returns a promise of it. It is rejected with ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_MEMORY,
   * which says which sizes would fit; ERR_BLOCKSTEP_BAD_MODEL for a model that generates no text
   * token by token; ERR_BLOCKSTEP_DISPOSED
   */
  static async create(options: LlamaExecutorOptions): Promise<LlamaExecutor> {
    const resolved = resolveLlamaOptions(options);
    return new LlamaExecutor(resolved, await makeContext(resolved, batchOf(resolved)));
  }

  /** The counts so far. */
  stats(): LlamaExecutorStats {
    const { cells, counts } = this.#planner;
    return {
      steps: this.#numSteps,
      failedSteps: this.#failedSteps,
      ...this.#chain.counts,
      tokens: this.#numTokens,
      ...counts,
      cachedSequences: cells.numHolders,
      sequencesGivenUp: cells.holdersDropped,
      cells: cells.cells,
      maxCells: this.#maxCells,
    };
  }

  /**
   * Computes the next step.
   * @throws by rejection ERR_BLOCKSTEP_EXECUTOR with the message of llama.cpp;
   * ERR_BLOCKSTEP_DISPOSED
   */
  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult | Promise<ExecutorResult> {
    if (this.#disposed) return Promise.reject(disposed());
    if (this.#broken !== null) return Promise.reject(this.#broken);
    if (tables === null)
      return Promise.reject(
        new BlockstepError('ERR_BLOCKSTEP_INVARIANT', 'the executor needs the tables of a step'),
      );
    this.#numSteps++;
    this.#samplers.find(plan, tables, this.#samplerNumbers, this.#entryErrors);
    const chain = this.#chain;
    if (!chain.isOpen) return this.#begin(plan, tables);
    if (!chain.fits(plan, tables, this.#samplerNumbers))
      return chain.end().then(() => this.#begin(plan, tables));
    this.#numTokens += plan.numRequests;
    const place = chain.next();
    // An answer that is there makes no promise.
    return place instanceof Promise ? place.then((own) => this.#read(plan, own)) : this.#read(plan, place);
  }

  /** Computes a step, and maybe steps behind it. */
  async #begin(plan: ExecutorPlan, tables: StepTables): Promise<ExecutorResult> {
    if (this.#disposed) throw disposed();
    const planner = this.#planner;
    planner.plan(plan, tables, this.#samplerNumbers, this.#adapters.find(plan, this.#entryErrors));
    planner.cells.check(this.#maxCells);
    this.#drafts.read(plan, tables);
    this.#numTokens += planner.program.numTokens;
    const answer = await this.#compute(plan, tables);
    return this.#read(plan, this.#chain.receive(answer));
  }

  /** Turns the answer of llama.cpp to a step into the answer to its plan. */
  #read(plan: ExecutorPlan, place: AnswerPlace): ExecutorResult {
    if (this.#disposed) throw disposed();
    const planner = this.#planner;
    const { answer } = place;
    // Only the last step of several can have failed.
    const isFailed = answer.failure !== '' && this.#chain.isLast;
    if (isFailed) {
      this.#failedSteps++;
      const error = new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', `llama.cpp failed: ${answer.failure}`);
      if (answer.callsDone < 0) this.#broken = error;
      planner.failed(plan, answer.callsDone);
      if (answer.callsDone <= 0) {
        this.#chain.took(NO_TOKENS);
        throw error;
      }
    }
    const result = readAnswer(plan, planner.program, place, isFailed, this.#samplers, this.#entryErrors);
    this.#chain.took(result.tokens);
    const drafts = this.#drafts.next(plan, result);
    return drafts === undefined ? result : { ...result, drafts };
  }

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG for a token outside the vocabulary, or parameters that are no
   * `SamplingParams`. Also for an adapter that the model does not have, or a grammar that
   * `LlamaModel.grammar` did not make
   */
  checkRequest({ prompt, params, grammar, adapter }: SubmittedRequest): void {
    const { vocabSize } = this.#options.model.info;
    for (let i = 0; i < prompt.length; i++)
      if (prompt[i] >= vocabSize || prompt[i] < 0)
        throw badArg(`prompt[${i}]`, prompt[i], `a token of the vocabulary, from 0 to ${vocabSize - 1}`);
    readChoice(params, vocabSize);
    if (adapter !== '' && !this.#adapters.has(adapter))
      throw badArg('adapter', adapter, this.#adapters.inWords);
    if (grammar !== null && !(grammar instanceof LlamaGrammar))
      throw badArg('grammar', grammar, 'one that LlamaModel.grammar made');
    // The request shall be admitted with the next token.
    this.#chain.hasten();
  }

  requestsFinished(handles: readonly number[]): void {
    this.#chain.hasten();
    this.#planner.release(handles);
    this.#samplers.forget(handles);
    this.#drafts.forget(handles);
  }

  /** Frees the KV cache. A running step is interrupted as soon as llama.cpp can. Idempotent. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#context.dispose();
  }

  [INSPECT](depth: number, options: object): string {
    const { threads } = this;
    const { numBlocks, blockSize, maxNumSeqs, model } = this.#options;
    const facts = { model: model.info.architecture, numBlocks, blockSize, maxNumSeqs, threads };
    return showFacts('LlamaExecutor', depth, options, facts);
  }

  async #compute(plan: ExecutorPlan, tables: StepTables): Promise<NativeAnswer> {
    const { program } = this.#planner;
    const { values, length } = program.write(plan.numRequests);
    const most = this.#mayChain && program.isDecodes ? this.#chain.mostAfter(plan, this.#entryErrors) : 0;
    if (most > 0) {
      this.#planner.extend(plan, tables, most);
      this.#chain.begin(plan, this.#samplerNumbers);
    }
    try {
      return await this.#context.compute(values, length, most);
    } catch (cause) {
      // The program was refused before it began, so the cache differs from its record here.
      this.#broken = new BlockstepError('ERR_BLOCKSTEP_INVARIANT', describeError(cause), { cause });
      throw this.#broken;
    }
  }

  get #maxCells(): number {
    return (this.#options.numBlocks - 1) * this.#options.blockSize;
  }
}

/**
 * Most tokens of a call of llama.cpp. Recomputed tokens exceed a step's budget, and go into more
 * calls.
 */
function batchOf({
  maxNumBatchedTokens,
  numSpeculativeTokens,
  numBlocks,
  blockSize,
}: ResolvedLlamaOptions): number {
  return Math.max(Math.min(maxNumBatchedTokens, (numBlocks - 1) * blockSize), numSpeculativeTokens + 1);
}

/**
 * Our kernel computes each row by its own cells, so decodes need no calls of their own. One call
 * reads the weights once for all rows.
 */
function splitFromOf(model: LlamaModel): number {
  const isByTiles = model.info.attention.kernel === 'llama' && !hasGpu(model);
  return isByTiles ? SPLIT_FROM : Number.POSITIVE_INFINITY;
}

const NO_TOKENS = new Int32Array(0);

function disposed(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the executor was disposed');
}
