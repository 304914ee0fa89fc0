import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Rng } from './rng.js';

/** The options that each loop draws in its own way. */
interface Ways {
  blockSizes: readonly number[];
  leastDepth: number;
  leastSeqs: number;
  /** Room in the pool, in longest requests. */
  room(): number;
  /** Rows more than requests that run. */
  spareRows(): number;
  policy(): 'fcfs' | 'priority';
  drafts(pipelineDepth: number): Pick<SchedulerOptions, 'numSpeculativeTokens' | 'speculativeMethod'>;
  maxLoras(): number;
}

/** The options of a scheduler without its deadlines, KV cache groups and rules. The pool is small: some requests do not fit. */
export function drawScheduler(rng: Rng, ways: Ways) {
  const blockSize = rng.pick(ways.blockSizes);
  const maxModelLen = rng.between(20, 60);
  const pipelineDepth = rng.between(ways.leastDepth, 3) as 1 | 2 | 3;
  const needed = Math.ceil(maxModelLen / blockSize);
  const maxNumSeqs = rng.between(ways.leastSeqs, 6);
  return {
    ...{ blockSize, maxModelLen, pipelineDepth, maxNumSeqs },
    numBlocks: Math.max(3, 1 + Math.floor(needed * ways.room())),
    maxNumBatchedTokens: rng.between(4, 40),
    numRows: maxNumSeqs + ways.spareRows(),
    policy: ways.policy(),
    enablePrefixCaching: !rng.chance(0.1),
    longPrefillTokenThreshold: rng.chance(0.3) ? rng.between(1, 8) : 0,
    reserveFullIsl: rng.chance(0.5),
    ...ways.drafts(pipelineDepth),
    maxLoras: ways.maxLoras(),
    hashSeed: 7,
    loadFailurePolicy: rng.pick(['fail', 'recompute'] as const),
  };
}

/** How often a deadline is set, and its least and most milliseconds. */
type Deadline = readonly [probability: number, least: number, most: number];

/** The deadlines of a run; `queue` is one of `drawTimeouts`. */
export function drawDeadlines(
  rng: Rng,
  often: Record<'load' | 'reclaim' | 'grammar' | 'streamingInput', Deadline>,
): Record<keyof typeof often, number> {
  const draw = ([probability, least, most]: Deadline): number =>
    probability === 1 || rng.chance(probability) ? rng.between(least, most) : 0;
  return {
    load: draw(often.load),
    reclaim: draw(often.reclaim),
    grammar: draw(often.grammar),
    streamingInput: draw(often.streamingInput),
  };
}

export function drawReclaim(rng: Rng): 'on-report' | 'on-confirmation' {
  return rng.pick(['on-report', 'on-confirmation'] as const);
}

/** The clients of a run: prompts of up to so many tokens, for answers of up to so many. */
export function drawClients(rng: Rng, longest: number, most: number) {
  return {
    longestPrompt: rng.between(4, longest),
    mostTokens: rng.between(1, most),
    // Few, so that they are used again at once.
    numIds: rng.pick([3, 6, 12, 40]),
    numFamilies: rng.between(1, 4),
  };
}
