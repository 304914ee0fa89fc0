// Draws the groups and the options.
import type { KvGroupOptions, SchedulerOptions } from '../../../../src/index.js';

type Next = (n: number) => number;

const MODEL_LEN = 48;

/** A group of any type but `chunked`, whose block size depends on those of all others. */
function drawGroup(next: Next, sizes: readonly number[], caching: boolean): KvGroupOptions {
  const blockSize = sizes[next(sizes.length)];
  const type = (['full', 'sliding', 'sliding', 'mamba', 'sink', 'mla'] as const)[next(6)];
  if (type === 'sliding') return { type, blockSize, window: 1 + next(14) };
  if (type === 'sink') return { type, blockSize, sinkTokens: blockSize };
  if (type !== 'mamba') return { type, blockSize };
  return caching ? { type, blockSize: sizes[0] } : { type, mode: 'none' };
}

/** One to four groups: their Mamba groups have one mode. Chunked groups have the largest block size, which is a multiple of all. */
export function drawGroups(next: Next, caching: boolean): KvGroupOptions[] {
  const sizes = [[2], [4], [2, 4], [4, 8], [2, 4, 8]][next(5)];
  const mode = (['align', 'all'] as const)[next(2)];
  const groups = Array.from({ length: 1 + next(3) }, () => drawGroup(next, sizes, caching));
  const states = groups.some(({ type, blockSize }) => type === 'mamba' && blockSize === undefined);
  if (next(3) === 0 && !states) {
    const blockSize = sizes[sizes.length - 1];
    groups.push({ type: 'chunked', blockSize, chunk: blockSize + next(12) });
    groups.push({ type: 'full', blockSize });
  }
  return groups.map((group) => (group.type === 'mamba' && caching ? { ...group, mode } : group));
}

/** Chunks that may begin and end inside blocks, mostly beside full attention. */
export function drawChunks(next: Next): KvGroupOptions[] {
  const blockSize = [2, 4, 8][next(3)];
  const chunked = { type: 'chunked', blockSize, chunk: 1 + next(3 * blockSize) } as const;
  const others = [
    { type: 'full' },
    { type: 'sliding', window: 1 + next(14) },
    { type: 'sink', sinkTokens: 8 },
  ] as const;
  const other = { ...others[next(3)], blockSize };
  return next(4) === 0 ? [chunked] : [other, chunked];
}

/** A small pool, in which hardly more than one request of the full length has room. */
export function drawGroupOptions(
  next: Next,
  depth: 1 | 2 | 3,
  draw: (next: Next, caching: boolean) => KvGroupOptions[] = drawGroups,
): Partial<SchedulerOptions> {
  const caching = next(4) > 0;
  const kvGroups = draw(next, caching);
  const sizes = kvGroups.map(({ blockSize = MODEL_LEN }) => blockSize);
  const places = sizes.reduce((sum, size) => sum + MODEL_LEN / size + 1, 0);
  return {
    kvGroups,
    pipelineDepth: depth,
    numBlocks: places + 2 + next(10),
    blockSize: Math.min(...sizes),
    maxNumSeqs: 2 + next(5),
    maxNumBatchedTokens: 8 + next(30),
    maxModelLen: MODEL_LEN,
    policy: next(2) === 0 ? 'priority' : 'fcfs',
    enablePrefixCaching: caching,
    longPrefillTokenThreshold: next(3) === 0 ? 8 : 0,
    reserveFullIsl: next(2) === 0,
  };
}

/** The same with drafts, and no states: windows may be shorter than the drafts. */
export function drawDrafts(next: Next, depth: 1 | 2 | 3): Partial<SchedulerOptions> {
  const attention = (_: Next, caching: boolean): KvGroupOptions[] => {
    if (next(3) === 0) return drawChunks(next);
    const groups = drawGroups(next, caching).filter(({ type }) => type !== 'mamba');
    return groups.length > 0 ? groups : [{ type: 'sliding', blockSize: 2, window: 1 + next(6) }];
  };
  return withDrafts(drawGroupOptions(next, depth, attention), next, 4);
}

/** The same with drafts and states: a group of states among others, and fewer drafts than a block has tokens. */
export function drawDraftStates(next: Next, depth: 1 | 2): Partial<SchedulerOptions> {
  const states = (_: Next, caching: boolean): KvGroupOptions[] => {
    const mode = caching ? (['align', 'all'] as const)[next(2)] : 'none';
    const own: KvGroupOptions = { type: 'mamba', mode, ...(caching ? { blockSize: 4 } : {}) };
    const full: KvGroupOptions = { type: 'full', blockSize: 4 };
    const sliding: KvGroupOptions = { type: 'sliding', blockSize: 4, window: 1 + next(9) };
    return [[own], [full, own], [own, sliding], [full, own, sliding]][next(4)];
  };
  return withDrafts(drawGroupOptions(next, depth, states), next, 3);
}

function withDrafts(options: Partial<SchedulerOptions>, next: Next, most: number): Partial<SchedulerOptions> {
  const isChunked = options.kvGroups?.some(({ type }) => type === 'chunked') === true;
  return {
    ...options,
    // Room for the additional blocks of drafts.
    numBlocks: (options.numBlocks as number) + 4 * (options.kvGroups?.length as number),
    numSpeculativeTokens: 1 + next(most),
    speculativeMethod: (['ngram', 'draft_model', isChunked ? 'ngram' : 'eagle'] as const)[next(3)],
  };
}
