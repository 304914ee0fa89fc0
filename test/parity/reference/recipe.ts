import type { TraceConfig } from '../trace.js';
import type { Random } from './random.js';

/** The behaviour of a connector in a generated trace. */
export interface ConnectorRecipe {
  /** How often a request has parameters for it, is loaded after the step, is deferred, and keeps its blocks. */
  rate: number;
  asyncRate: number;
  deferRate: number;
  delayRate: number;
  /** Most updates until a load, or a send, is reported. */
  longestLoad: number;
  longestSend: number;
  /** How often a load brings as much as it may. */
  fullRate: number;
  /**
   * Whether a load may bring all tokens: vLLM has nothing left to compute if it counts on blocks
   * that another load lost.
   */
  loadsAll: boolean;
  /** How often a load fails. */
  failRate: number;
  /**
   * Whether synchronous loads fail: with steps in flight vLLM goes on with the KV that they read,
   * and miscounts placeholders.
   */
  failsSync: boolean;
}

/** The configuration and the rates of a generated trace. Rates are per step. */
export interface Recipe {
  config: TraceConfig & { num_speculative_tokens: number };
  steps: number;
  addRate: number;
  /** Requests that come in one step. */
  mostAdds: number;
  abortRate: number;
  pauseRate: number;
  resetRate: number;
  /** Whether a reset may preempt what runs. */
  resetsRunning: boolean;
  numSalts: number;
  numAdapters: number;
  /** How often a request is constrained by a grammar, and opens a session. */
  grammarRate: number;
  /** How often a grammar does not compile. At most one such request waits at a time. */
  grammarFailRate: number;
  sessionRate: number;
  /** Every answer ends by its length: with steps in flight vLLM spoils sessions that a token ends. */
  lengthStopsOnly: boolean;
  /** Short prompts make many decodes meet in a tight pool; short outputs make many end there. */
  longestPrompt: number;
  /** How often a prompt begins with a shared text. */
  sharedRate: number;
  /** Texts that are shared; 0: each step its own, so that nothing of it is cached yet. */
  numShared: number;
  longestOutput: number;
  /** Whether a request may grow beyond the pool: vLLM then preempts and admits it again for ever. */
  mayOutgrowPool: boolean;
  connector: ConnectorRecipe | null;
}

/** Draws a recipe for one trace: most often `anyRecipe`, sometimes `crowded`, and often `connected` too. */
export function randomRecipe(random: Random): Recipe {
  const recipe = anyRecipe(random);
  const shaped = random.chance(0.2)
    ? crowded(recipe, random)
    : random.chance(0.35)
      ? conversing(recipe, random)
      : recipe;
  if (random.chance(0.1)) return sharing(connected(recipe, random), random);
  return random.chance(0.5) ? connected(shaped, random) : shaped;
}

/**
 * Three batches in flight, in a pool that is tight more often than not. A request can be preempted
 * and admitted again before an older batch is processed. Without grammars: vLLM samples a batch
 * behind two others when only one of these was processed. Without resets of running requests: a
 * second reset forgets which batches the first reset was to drop.
 */
export function deepRecipe(random: Random): Recipe {
  const any = anyRecipe(random);
  const recipe = random.chance(0.3) ? crowded(any, random) : any;
  const drafts = recipe.config.num_speculative_tokens;
  const { max_model_len, block_size } = recipe.config;
  const longest = Math.ceil((max_model_len + 3 * drafts) / block_size);
  const num_gpu_blocks = random.chance(0.7)
    ? 2 + longest + random.integer(0, longest)
    : Math.max(recipe.config.num_gpu_blocks, 2 + longest);
  const config = { ...recipe.config, num_gpu_blocks, async_scheduling: true, pipeline_depth: 3 as const };
  return { ...recipe, config, grammarRate: 0, resetsRunning: false };
}

/** Requests that start together from the same blocks, some of which then turn out to have failed. */
function sharing(recipe: Recipe, random: Random): Recipe {
  const config: Recipe['config'] = {
    ...recipe.config,
    block_size: random.pick([1, 2, 4]),
    max_model_len: 48,
    num_gpu_blocks: random.pick([60, 200]),
    max_num_seqs: 16,
    max_num_batched_tokens: 256,
    enable_prefix_caching: true,
    async_scheduling: recipe.config.kv_load_failure_policy === 'fail' && random.chance(0.5),
  };
  const connector: ConnectorRecipe = {
    ...(recipe.connector as ConnectorRecipe),
    rate: 0.7,
    asyncRate: random.pick([0, 0.4, 0.6]),
    fullRate: 0.8,
    failRate: 0.5,
    failsSync: true,
    loadsAll: false,
  };
  const resetsRunning = !(config.async_scheduling && config.num_speculative_tokens > 0);
  return {
    ...recipe,
    config,
    connector,
    resetsRunning,
    addRate: 0.2,
    mostAdds: 8,
    longestPrompt: 20,
    sharedRate: 0.95,
    numShared: 0,
  };
}

/** With a connector. */
export function connected(recipe: Recipe, random: Random): Recipe {
  const policy = random.pick(['fail', 'recompute']);
  return {
    ...recipe,
    config: { ...recipe.config, kv_load_failure_policy: policy },
    connector: {
      rate: random.pick([0.4, 0.9]),
      asyncRate: random.pick([0, 0.5, 0.8, 1]),
      deferRate: random.pick([0, 0.2]),
      delayRate: random.pick([0, 0.4]),
      longestLoad: random.pick([0, 3, 10]),
      longestSend: random.pick([0, 8]),
      fullRate: 0.3,
      loadsAll: true,
      failRate: random.pick([0, 0.2, 0.5]),
      failsSync: !(recipe.config.async_scheduling && policy === 'recompute'),
    },
  };
}

/**
 * Sessions, as far as vLLM keeps them whole. They have no drafts, and steps in flight only where
 * nothing is preempted and every answer ends by its length.
 */
export function conversing(recipe: Recipe, random: Random): Recipe {
  const isAsync = recipe.config.async_scheduling;
  const config: Recipe['config'] = { ...recipe.config, num_speculative_tokens: 0, spec_method: null };
  if (isAsync) {
    config.block_size = random.pick([4, 16]);
    config.max_model_len = random.pick([48, 96]);
    config.num_gpu_blocks = 2 + 60 * Math.ceil(config.max_model_len / config.block_size);
    if (!config.enable_chunked_prefill) config.max_num_batched_tokens = config.max_model_len + 8;
  }
  return {
    ...recipe,
    config,
    addRate: isAsync ? 0.2 : recipe.addRate,
    sessionRate: random.pick([0.3, 0.8]),
    lengthStopsOnly: isAsync,
    resetsRunning: true,
    mayOutgrowPool: false,
  };
}

/**
 * Many short requests at once in a tight pool, two steps in flight. A victim may stand before the
 * request that needs room, and have nothing left to compute. That is rare elsewhere.
 */
function crowded(recipe: Recipe, random: Random): Recipe {
  const { num_speculative_tokens: drafts } = recipe.config;
  const config: Recipe['config'] = {
    ...recipe.config,
    block_size: 1,
    max_model_len: 24,
    num_gpu_blocks: 26 + 2 * drafts + random.integer(0, 30),
    max_num_seqs: 16,
    max_num_batched_tokens: 64,
    policy: 'priority',
    async_scheduling: true,
  };
  return { ...recipe, config, addRate: 0.6, resetsRunning: drafts === 0, longestPrompt: 6, longestOutput: 8 };
}

/** Every option is drawn at random, also options that the recorded traces leave alone. */
export function anyRecipe(random: Random): Recipe {
  const blockSize = random.pick([1, 2, 4, 8, 16]);
  const maxModelLen = random.pick([24, 48, 96, 192]);
  const drafts = random.chance(0.5) ? 0 : random.integer(1, 5);
  const isAsync = random.chance(0.5);
  const chunked = random.chance(0.75);
  const budget = chunked ? random.pick([7, 16, 33, 64, 256]) : maxModelLen + random.pick([0, 8]);
  // From a pool that does not hold one request of full length to one that never fills.
  const longest = Math.ceil((maxModelLen + 2 * drafts) / blockSize);
  const numBlocks = 2 + Math.ceil(longest * random.pick([0.7, 1, 1, 1.5, 2, 8]));
  return {
    config: {
      block_size: blockSize,
      num_gpu_blocks: numBlocks,
      max_num_seqs: random.pick([1, 3, 8, 16, 16]),
      max_num_batched_tokens: budget,
      max_num_scheduled_tokens: null,
      max_model_len: maxModelLen,
      enable_prefix_caching: random.chance(0.85),
      policy: random.pick(['fcfs', 'priority']),
      enable_chunked_prefill: chunked,
      long_prefill_token_threshold: chunked ? random.pick([0, 0, 1, 4, 13, 40]) : 0,
      scheduler_reserve_full_isl: random.chance(0.5),
      async_scheduling: isAsync,
      log_stats: false,
      use_v2_model_runner: false,
      kv_load_failure_policy: 'fail',
      num_speculative_tokens: drafts,
      spec_method: drafts === 0 ? null : random.pick(['ngram', 'eagle', 'draft_model']),
      max_loras: random.pick([null, null, 1, 2]),
    },
    steps: random.integer(40, 160),
    addRate: random.pick([0.1, 0.3, 0.6]),
    mostAdds: 3,
    abortRate: random.pick([0, 0.05, 0.2]),
    pauseRate: random.pick([0, 0, 0.05]),
    resetRate: random.pick([0, 0, 0.05]),
    // With drafts in flight vLLM drops too many batches after such a reset and may hang.
    resetsRunning: !(isAsync && drafts > 0),
    numSalts: random.pick([0, 0, 2]),
    numAdapters: random.pick([0, 2, 4]),
    grammarRate: random.pick([0, 0, 0.4]),
    grammarFailRate: 0,
    sessionRate: 0,
    lengthStopsOnly: false,
    longestPrompt: random.pick([5, 14, maxModelLen]),
    sharedRate: 0.6,
    numShared: 4,
    longestOutput: random.pick([5, 20, 60]),
    mayOutgrowPool: random.chance(0.1),
    connector: null,
  };
}
