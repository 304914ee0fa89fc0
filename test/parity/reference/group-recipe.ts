import type { TraceKvGroup } from '../trace.js';
import { greatestCommonDivisor } from './kv/lookup.js';
import type { Random } from './random.js';
import { anyRecipe, connected, conversing, type Recipe } from './recipe.js';
import { blocksFor, groupsOf, keptBlocks } from './room.js';

type Config = Recipe['config'];
type Type = TraceKvGroup['type'];

/** Mixtures of types that models have, and others that vLLM allows. */
const MIXTURES: readonly (readonly Type[])[] = [
  ['full', 'sliding'],
  ['full', 'sliding', 'sliding'],
  ['full', 'full', 'sliding', 'sliding'],
  ['sliding'],
  ['sliding', 'sliding'],
  ['full', 'mamba'],
  ['full', 'mamba', 'mamba', 'mamba'],
  ['full', 'full', 'mamba'],
  ['full', 'sliding', 'mamba'],
  ['sliding', 'mamba'],
  ['mamba'],
  ['full', 'chunked'],
  ['chunked'],
  ['full', 'sliding', 'chunked'],
  ['sink', 'sliding'],
  ['sink'],
  ['mla', 'sliding'],
  ['full', 'mla', 'sliding'],
  ['full'],
];

function leastCommonMultiple(sizes: readonly number[]): number {
  return sizes.reduce((a, b) => (a / greatestCommonDivisor(a, b)) * b);
}

/**
 * Several KV cache groups, or one that is not full attention: whatever vLLM allows, and does not die of.
 * @param loadsStates whether connectors may load where chunks are aligned, as in August
 */
export function groupRecipe(random: Random, loadsStates = false): Recipe {
  for (;;) {
    const recipe = draw(random, loadsStates);
    if (isAllowed(recipe)) return recipe;
  }
}

function draw(random: Random, loadsStates: boolean): Recipe {
  const any = random.chance(0.15) ? withSessions(random) : anyRecipe(random);
  const recipe = any.config.async_scheduling && random.chance(0.2) ? deepened(any) : any;
  const max_model_len = random.pick([64, 96, 192]);
  const config: Config = {
    ...recipe.config,
    block_size: random.pick([2, 4, 8, 16]),
    max_model_len,
    max_num_batched_tokens: recipe.config.enable_chunked_prefill
      ? random.pick([16, 33, 64, 256])
      : max_model_len + random.pick([0, 8]),
  };
  config.kv_groups = drawGroups(config, random);
  if (config.kv_groups.some(isAligned)) alignChunks(config, random);
  measure(config, random);
  const longest = blocksFor(config, max_model_len);
  const room = Math.ceil(longest * random.pick([0.7, 1, 1, 1.3, 2, 5]));
  config.num_gpu_blocks = keptBlocks(config) + 1 + room;
  const drawn: Recipe = {
    ...recipe,
    config,
    // With sinks vLLM preempts what runs, and then dies.
    resetsRunning: recipe.resetsRunning && config.kv_groups.every(({ type }) => type !== 'sink'),
    addRate: random.pick([0.1, 0.2, 0.4]),
    longestPrompt: random.pick([20, Math.ceil(max_model_len / 2), max_model_len]),
    sharedRate: 0.8,
    numShared: 2,
  };
  const connects = recipe.sessionRate === 0 && mayHaveConnector(config, loadsStates) && random.chance(0.4);
  const whole = connects ? connect(drawn, random) : drawn;
  // Changes that updates make to the cache are reported with the next step, later than vLLM reports
  // them.
  const tells = !config.async_scheduling && whole.connector === null && random.chance(0.5);
  return tells ? { ...whole, config: { ...whole.config, kv_events: 1 } } : whole;
}

/** Without steps in flight, where vLLM spoils sessions when requests are preempted. */
function withSessions(random: Random): Recipe {
  const any = anyRecipe(random);
  return conversing({ ...any, config: { ...any.config, async_scheduling: false } }, random);
}

/** With three batches in flight, and without what vLLM does not do right then (see `deepRecipe`). */
function deepened(recipe: Recipe): Recipe {
  return { ...recipe, config: { ...recipe.config, pipeline_depth: 3 }, grammarRate: 0, resetsRunning: false };
}

function isAligned(group: TraceKvGroup): boolean {
  return group.type === 'mamba' && group.mode === 'align';
}

/**
 * Sets the options that vLLM demands where chunks end with blocks. A varying number of drafts makes
 * vLLM die.
 */
function alignChunks(config: Config, random: Random): void {
  const { block_size, max_num_batched_tokens, spec_method } = config;
  config.enable_chunked_prefill = true;
  config.max_num_batched_tokens = Math.max(max_num_batched_tokens, block_size);
  config.long_prefill_token_threshold = random.pick([0, 0, block_size, 40]);
  if (spec_method === 'ngram') config.spec_method = random.pick(['eagle', 'draft_model']);
}

/** Sets what follows from the block sizes. */
function measure(config: Config, random: Random): void {
  const sizes = groupsOf(config).map((group) => group.block_size);
  const divisor = sizes.reduce(greatestCommonDivisor);
  const mayBeFiner = sizes.length > 1 && divisor % 2 === 0;
  config.scheduler_block_size = leastCommonMultiple(sizes);
  if (!config.enable_prefix_caching) config.hash_block_size = config.scheduler_block_size;
  else config.hash_block_size = mayBeFiner && random.chance(0.2) ? divisor / 2 : divisor;
}

/** With loads that fail: of several groups only where vLLM would be right if it did not die. */
function connect(recipe: Recipe, random: Random): Recipe {
  const { config, connector, ...rest } = connected(recipe, random);
  if (!connector || groupsOf(config).length === 1) return { ...rest, config, connector };
  config.kv_load_failure_policy = 'recompute';
  return { ...rest, config, connector: { ...connector, failsSync: false } };
}

/** vLLM of May dies of external tokens where chunks are aligned, and miscounts where two kinds of full attention hit unequally. */
function mayHaveConnector(config: Config, loadsStates: boolean): boolean {
  const groups = groupsOf(config);
  const full = groups.filter(({ type }) => type === 'full' || type === 'mla' || type === 'sink');
  const kinds = new Set(full.map(({ type, block_size }) => `${type} ${block_size}`));
  return kinds.size < 2 && (loadsStates || !groups.some(isAligned));
}

function drawGroups(config: Config, random: Random): TraceKvGroup[] {
  const types = [...random.pick(MIXTURES)];
  // A model may have its types in any order.
  types.sort(() => random.next() - 0.5);
  const mode = config.enable_prefix_caching ? random.pick(['all', 'align', 'align']) : 'none';
  const groups = types.map((type) => drawGroup(type, mode, config, random));
  const lcm = leastCommonMultiple(groups.map(({ block_size }) => block_size));
  for (const group of groups) if (group.type === 'chunked') group.block_size = lcm;
  if (config.spec_method === 'eagle' && random.chance(0.6)) {
    for (const group of groups) if (random.chance(0.5)) group.eagle = 1;
  }
  return groups;
}

function drawGroup(
  type: Type,
  mode: 'none' | 'all' | 'align',
  { block_size: base, max_model_len, num_speculative_tokens }: Config,
  random: Random,
): TraceKvGroup {
  const block_size = base * random.pick([1, 1, 1, 2, 3, 4]);
  const reach = () => random.pick([1, base, base + 1, random.integer(1, 3 * base), random.integer(1, 60)]);
  switch (type) {
    case 'sink':
      return { type, block_size, sink_len: block_size * random.integer(1, 2) };
    case 'sliding':
      return { type, block_size, sliding_window: reach() };
    case 'chunked':
      return { type, block_size: base, chunk: reach() };
    case 'mamba': {
      const size = mode === 'none' ? max_model_len : mode === 'align' ? base : block_size;
      return { type, block_size: size, mode, num_speculative_blocks: num_speculative_tokens };
    }
    default:
      return { type, block_size };
  }
}

/** Whether vLLM starts so, and does not die later. */
function isAllowed({ config, sessionRate }: Recipe): boolean {
  const groups = groupsOf(config);
  const kinds = new Set(groups.map(({ eagle: _, ...group }) => JSON.stringify(group)));
  if (groups.length > 1 && config.enable_prefix_caching && kinds.size === 1) return false;
  if (sessionRate > 0 && groups.some(isAligned)) return false;
  const chunked = groups.filter(({ type }) => type === 'chunked');
  const isWhole = chunked.every(({ block_size }) => block_size === config.scheduler_block_size);
  return isWhole && (chunked.length === 0 || config.spec_method !== 'eagle');
}
