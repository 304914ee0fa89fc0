import type { KvGroupOptions } from '../../../src/scheduler/options/kv-groups.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Rng } from './rng.js';

/** The options of a run that KV cache groups change. */
type Drawn = Pick<
  SchedulerOptions,
  | 'kvGroups'
  | 'blockSize'
  | 'numBlocks'
  | 'maxModelLen'
  | 'maxNumBatchedTokens'
  | 'longPrefillTokenThreshold'
  | 'enablePrefixCaching'
  | 'numSpeculativeTokens'
  | 'speculativeMethod'
  | 'pipelineDepth'
>;

/**
 * Gives KV cache groups to two of three runs that ask for them. They are windows, chunks and states
 * beside full attention and by themselves, with blocks of one size or several. The pool gets as
 * much larger as the groups need.
 * @param draftsStates whether states and drafts go together
 * @returns whether this is one of them
 */
export function drawGroups(
  options: Drawn,
  workload: { longestPrompt: number; numFamilies: number; sessions: number },
  rng: Rng,
  draftsStates = false,
): boolean {
  if (!rng.chance(2 / 3)) return false;
  const longest = options.maxModelLen ?? 64;
  // Several blocks in a window, several windows in a prompt, and prompts that begin alike.
  const before = options.blockSize ?? 16;
  const size = Math.min(before, rng.pick([1, 2, 3, 4, 16]));
  options.blockSize = size;
  options.numBlocks = Math.ceil((options.numBlocks * before) / size);
  workload.longestPrompt = rng.between(workload.longestPrompt, Math.max(longest, workload.longestPrompt));
  workload.numFamilies = rng.pick([1, workload.numFamilies]);
  const window = rng.pick([
    1,
    2,
    size,
    size + 1,
    rng.between(1, longest),
    2 * size + 1,
    2 * size + 2,
    3 * size,
  ]);
  // Blocks of other groups may be larger, as those of layers with less KV a token are.
  const larger = size * rng.pick([1, 1, 2, 3]);
  const chunk = rng.pick([larger, 2 * larger, rng.between(1, longest)]);
  const sliding: KvGroupOptions = { type: 'sliding', window, blockSize: rng.pick([size, larger]) };
  const full: KvGroupOptions = { type: 'full', blockSize: rng.pick([size, larger]) };
  options.kvGroups = rng.pick<() => KvGroupOptions[]>([
    () => [full, sliding],
    () => [sliding, full],
    () => [full, sliding, { type: 'sliding', window: rng.between(1, longest), blockSize: size }],
    () => [
      { type: 'full', blockSize: size },
      { type: 'chunked', chunk, blockSize: larger },
    ],
    () => [{ type: 'chunked', chunk, blockSize: size }],
    () => [{ type: 'sliding', window, blockSize: size }],
    () => [{ type: 'sink', sinkTokens: size, blockSize: size }, sliding],
    () => drawStates(options, size, rng, draftsStates),
    () => drawStates(options, size, rng, draftsStates),
    () => drawStates(options, size, rng, draftsStates),
  ])();
  const hasStates = options.kvGroups.some(({ type }) => type === 'mamba');
  // No group of chunks looks back beyond the drafts of eagle: that is refused.
  if (options.kvGroups.some(({ type }) => type === 'chunked') && options.speculativeMethod === 'eagle')
    options.speculativeMethod = 'ngram';
  // Such sessions are refused.
  if (hasStates && (options.pipelineDepth ?? 1) > 1) workload.sessions = 0;
  options.numBlocks = Math.max(
    6,
    Math.floor(options.numBlocks * rng.pick([1, 1.5, options.kvGroups.length])),
  );
  return true;
}

/** A group of states, and one of full attention. */
function drawStates(options: Drawn, size: number, rng: Rng, hasDrafts: boolean): KvGroupOptions[] {
  const caching = options.enablePrefixCaching !== false;
  const mode = caching ? rng.pick(['align', 'align', 'all'] as const) : 'none';
  // Options that are refused: drafts that reach beyond one more block, and two steps that count on
  // them.
  const most = mode === 'align' ? size - 1 : Number.POSITIVE_INFINITY;
  options.numSpeculativeTokens = hasDrafts ? Math.min(most, options.numSpeculativeTokens ?? 0) : 0;
  if (options.pipelineDepth === 3 && options.numSpeculativeTokens > 0) options.pipelineDepth = 2;
  // A step has room for a block beside the slots of `drawRules`: less is refused.
  options.maxNumBatchedTokens = Math.max(size + 2, options.maxNumBatchedTokens ?? 0);
  const threshold = options.longPrefillTokenThreshold ?? 0;
  options.longPrefillTokenThreshold = threshold === 0 ? 0 : Math.max(size, threshold);
  const full: KvGroupOptions = { type: 'full', blockSize: size };
  const states: KvGroupOptions =
    mode === 'none' ? { type: 'mamba', mode } : { type: 'mamba', mode, blockSize: size };
  return rng.chance(0.5) ? [full, states] : [states, full];
}
