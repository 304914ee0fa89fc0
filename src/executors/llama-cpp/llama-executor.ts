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
import { CellCopies } from './kv/cell-copies.js';
import { type KvOrigin, kvOrigin } from './kv/kv-origin.js';
import { LlamaKv } from './kv/llama-kv.js';
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
/** Milliseconds in which the engine asks for the tokens of a chain that is ready. */
const CHAIN_MS = 20;

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
 * The KV of all blocks lies in one cache of llama.cpp, of (numBlocks - 1) x blockSize cells. A
 * thread of the executor computes the steps.
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
  /** The blocks and their copies; null without `kvTransfer`. */
  readonly #kv: LlamaKv | null = null;
  readonly #copies: CellCopies | null = null;
  /** Ends the chain, or makes copies. The next step waits for it. */
  #pause: Promise<void> | null = null;
  /** Whether a step was begun and not answered. */
  #isStepping = false;
  #isWoken = false;
  #numSteps = 0;
  #failedSteps = 0;
  #numTokens = 0;
  #broken: Error | null = null;
  #disposed = false;

  private constructor(options: ResolvedLlamaOptions, context: NativeContext, origin: KvOrigin | null) {
    this.#options = options;
    this.threads = options.threads;
    this.#context = context;
    const { model, numBlocks, blockSize, maxNumSeqs, maxNumBatchedTokens } = options;
    const { maxModelLen, numSpeculativeTokens, numSequences } = options;
    const keepsPrefixes = model.info.memory === 'attention';
    const maxBlocks = Math.ceil((maxModelLen + numSpeculativeTokens) / blockSize) + 2;
    this.#planner = new Planner(
      {
        numBlocks,
        blockSize,
        maxBlocks,
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
    if (origin !== null) {
      const { cells, program } = this.#planner;
      const moves = () => program.movesOf(0);
      const wake = () => this.#wake();
      this.#copies = new CellCopies({ context, cells, moves, blockSize, maxBlocks, wake });
      this.#kv = new LlamaKv(context, this.#copies, numBlocks, origin.name);
    }
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
    const { model, numBlocks, blockSize, cacheType, nativeFlashAttention, kvTransfer } = resolved;
    const cells = (numBlocks - 1) * blockSize;
    const settings = { model, blockSize, cells, cacheType, flashAttention: nativeFlashAttention };
    const origin = kvTransfer ? await kvOrigin(settings) : null;
    const context = await makeContext(resolved, batchOf(resolved), origin);
    if (origin === null || context.blockBytes() > 0) return new LlamaExecutor(resolved, context, origin);
    context.dispose();
    throw badArg(
      'kvTransfer',
      true,
      'false, since llama.cpp keeps the KV of this model in a cache of another kind',
    );
  }

  /**
   * The KV blocks, for connectors that copy them: `offload({ memory: executor, ... })`.
   * @throws ERR_BLOCKSTEP_BAD_ARG without the option `kvTransfer`
   */
  get kv(): LlamaKv {
    if (this.#kv === null) throw badArg('kvTransfer', false, 'true where a connector copies KV blocks');
    return this.#kv;
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
    this.#isStepping = true;
    if (!chain.isOpen || !chain.fits(plan, tables, this.#samplerNumbers)) {
      const pause = this.#pauseIfNeeded();
      return pause === null ? this.#begin(plan, tables) : pause.then(() => this.#begin(plan, tables));
    }
    this.#numTokens += plan.numRequests;
    const place = chain.next();
    // An answer that is there makes no promise.
    return place instanceof Promise ? place.then((own) => this.#read(plan, own)) : this.#read(plan, place);
  }

  /** Ends the chain, and makes copies that wait. @returns null: there is nothing to do */
  #pauseIfNeeded(): Promise<void> | null {
    if (this.#pause !== null) return this.#pause;
    if (!this.#chain.isOpen && !this.#copies?.isWaiting) return null;
    this.#pause = this.#breathe().finally(() => {
      this.#pause = null;
    });
    return this.#pause;
  }

  async #breathe(): Promise<void> {
    if (this.#chain.isOpen) await this.#chain.end();
    if (this.#copies === null || this.#disposed || this.#broken !== null) return;
    try {
      await this.#copies.run();
    } catch (cause) {
      this.#break(new BlockstepError('ERR_BLOCKSTEP_INVARIANT', describeError(cause), { cause }));
    }
    this.#wake();
  }

  /** Has waiting copies made, also if no step comes. */
  #wake(): void {
    if (this.#isWoken || !this.#copies?.isWaiting) return;
    this.#isWoken = true;
    // A step that comes at once makes them itself.
    setImmediate(() => this.#copyIfIdle(this.#numSteps, false));
  }

  /** @param seen steps when it was last called; @param isLate whether it waited for the chain */
  #copyIfIdle(seen: number, isLate: boolean): void {
    const { isOpen } = this.#chain;
    if (isOpen && !this.#isStepping && !(isLate && seen === this.#numSteps)) {
      // Its tokens are wanted, unless the engine asks for none of them.
      this.#chain.hasten();
      const now = this.#numSteps;
      setTimeout(() => this.#copyIfIdle(now, true), CHAIN_MS);
      return;
    }
    this.#isWoken = false;
    if (!this.#isStepping && this.#copies?.isWaiting) void this.#pauseIfNeeded();
  }

  /** Computes a step, and maybe steps behind it. */
  async #begin(plan: ExecutorPlan, tables: StepTables): Promise<ExecutorResult> {
    try {
      if (this.#disposed) throw disposed();
      if (this.#broken !== null) throw this.#broken;
      const planner = this.#planner;
      planner.plan(plan, tables, this.#samplerNumbers, this.#adapters.find(plan, this.#entryErrors));
      planner.cells.check(this.#maxCells);
      this.#drafts.read(plan, tables);
      this.#numTokens += planner.program.numTokens;
      const answer = await this.#compute(plan, tables);
      return this.#read(plan, this.#chain.receive(answer));
    } catch (error) {
      this.#stepped();
      throw error;
    }
  }

  /** The engine may begin the next step. */
  #stepped(): void {
    this.#isStepping = false;
    this.#wake();
  }

  /** Refuses all further steps, since the content of the cache is unknown. */
  #break(error: BlockstepError): void {
    this.#broken = error;
    this.#copies?.dispose();
  }

  /** Turns the answer of llama.cpp to a step into the answer to its plan. */
  #read(plan: ExecutorPlan, place: AnswerPlace): ExecutorResult {
    if (this.#disposed) throw disposed();
    this.#stepped();
    const planner = this.#planner;
    const { answer } = place;
    // Only the last step of several can have failed.
    const isFailed = answer.failure !== '' && this.#chain.isLast;
    if (isFailed) {
      this.#failedSteps++;
      const error = new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', `llama.cpp failed: ${answer.failure}`);
      if (answer.callsDone < 0) this.#break(error);
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
    this.#copies?.dispose();
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
    const mayChain = this.#mayChain && !this.#copies?.isWaiting;
    const most = mayChain && program.isDecodes ? this.#chain.mostAfter(plan, this.#entryErrors) : 0;
    if (most > 0) {
      this.#planner.extend(plan, tables, most);
      this.#chain.begin(plan, this.#samplerNumbers);
    }
    try {
      return await this.#context.compute(values, length, most);
    } catch (cause) {
      // The program was refused before it began, so the cache differs from its record here.
      const error = new BlockstepError('ERR_BLOCKSTEP_INVARIANT', describeError(cause), { cause });
      this.#break(error);
      throw error;
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
