import { Random } from '../base/random.js';
import type { KvGroupOptions } from '../scheduler/options/kv-groups.js';
import type { Scene } from './scene.js';

/** The part of a scene that depends on its KV cache groups. */
export type Groups = Pick<Scene, 'kvGroups' | 'numBlocks'>;

/** Tokens of the smallest blocks, and of the longest text. */
interface Sizes {
  readonly blockSize: number;
  readonly maxModelLen: number;
}

/** Block sizes of a model, as multiples of the smallest. */
const MULTIPLES: readonly (readonly number[])[] = [[1], [1], [1, 2], [1, 4], [2, 4, 1]];
const MOST_GROUPS = 3;

/**
 * The groups of a run. In every scene without its own groups, one seed in three draws groups. Of 18
 * seeds in a row, these cover each pair of depth and number of ranks. Drafts are computed with one
 * group alone.
 */
export function groupsOf(scene: Scene, seed: number, sizes: Sizes): Groups {
  const isDrawn = (seed + Math.floor(seed / 3)) % 3 === 0;
  if (!isDrawn || scene.kvGroups !== null || scene.numSpeculativeTokens > 0) return scene;
  // Sessions with states are refused if several steps are in flight.
  const mayHaveStates = scene.chances.session === 0;
  const kvGroups = drawGroups(
    new Random(seed),
    { hasCache: scene.enablePrefixCaching, mayHaveStates },
    sizes,
  );
  return { kvGroups, numBlocks: blocksFor(kvGroups, scene.numBlocks, sizes) };
}

/**
 * Draws one to three groups, and now and then a group of chunks, whose blocks are as large as the
 * largest.
 */
function drawGroups(
  random: Random,
  { hasCache, mayHaveStates }: { hasCache: boolean; mayHaveStates: boolean },
  { blockSize }: Sizes,
): KvGroupOptions[] {
  const sizes = (MULTIPLES[random.below(MULTIPLES.length)] as readonly number[]).map(
    (times) => times * blockSize,
  );
  const largest = Math.max(...sizes);
  const mode = hasCache ? (['all', 'all', 'align'] as const)[random.below(3)] : 'none';
  const groups = Array.from({ length: 1 + random.below(MOST_GROUPS) }, (): KvGroupOptions => {
    const size = sizes[random.below(sizes.length)] as number;
    const type = (['full', 'sliding', 'sliding', 'mamba', 'sink', 'mla'] as const)[random.below(6)];
    if (type === 'sliding') return { type, blockSize: size, window: 1 + random.below(14) };
    if (type === 'sink') return { type, blockSize: size, sinkTokens: size };
    // States are at the ends of the smallest blocks. Without a prefix cache there is one state for
    // the whole text.
    if (type === 'mamba' && mayHaveStates && sizes.length === 1)
      return { type, mode, ...(hasCache && { blockSize }) };
    return { type: type === 'mamba' ? 'full' : type, blockSize: size };
  });
  if (random.below(4) === 0 && !groups.some(({ type }) => type === 'mamba'))
    groups.push(
      { type: 'full', blockSize: largest },
      { type: 'chunked', blockSize: largest, chunk: largest + random.below(12) },
    );
  return groups;
}

/** A pool as tight as the scene's with one group, with room for one text of the full length. */
function blocksFor(groups: readonly KvGroupOptions[], numBlocks: number, sizes: Sizes): number {
  const { blockSize, maxModelLen } = sizes;
  let least = 2;
  let share = 0;
  let sinks = 0;
  for (const { type, mode, blockSize: size = blockSize, sinkTokens = 0 } of groups) {
    least += mode === 'none' ? 1 : maxModelLen / size + 1;
    // A text holds only a part of its tokens in a group of windows or chunks.
    const isWhole = type === 'full' || type === 'mla' || type === 'sink';
    share += (blockSize / size) * (isWhole ? 1 : 1 / 2);
    sinks += sinkTokens / size;
  }
  return sinks + Math.max(least, Math.round(share * numBlocks));
}
