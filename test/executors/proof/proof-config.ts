// A configuration, drawn from one seed: depths 1 to 3, drafts, preemption, shared prefixes,
// sessions.
import type { SchedulerOptions } from 'blockstep';
import type { Random } from './random.js';

/** How often things happen to a run; all of them probabilities. */
export interface Rates {
  /** Of a step, to be answered by a promise. */
  readonly defer: number;
  /** Of a round, to compute another step that waits. */
  readonly compute: number;
  readonly abort: number;
  readonly reset: number;
  readonly stepFault: number;
  readonly rowFault: number;
  /** Of a step, to lose blocks. */
  readonly loss: number;
  /** Of a computed step, to be answered later. */
  readonly hold: number;
  /** Of a call of `execute`, to submit or to abort from inside it. */
  readonly inside: number;
}

export interface RunConfig {
  readonly options: SchedulerOptions & { numBlocks: number; blockSize: number; maxModelLen: number };
  readonly rates: Rates;
  readonly numRequests: number;
  readonly watchesBlocks: boolean;
  readonly draftErrorRate: number;
  /** Milliseconds that the clock goes on with each look at it. */
  readonly tick: number;
  /** After how many rounds the engine is disposed, whatever is in flight; never, as a rule. */
  readonly disposeAfter: number;
  /** Some requests may need more blocks than the pool has. */
  readonly canOutgrow: boolean;
}

export function drawConfig(random: Random): RunConfig {
  const blockSize = random.int(1, 8);
  const maxModelLen = random.int(16, 64);
  const numSpeculativeTokens = random.chance(0.4) ? 0 : random.int(1, 4);
  const whole = Math.ceil(maxModelLen / blockSize);
  const pool = random.next();
  // Most pools hold one long request and little beside it; some not even that, and some many.
  const blocks =
    pool < 0.1
      ? Math.max(2, Math.floor(whole * 0.7))
      : pool < 0.75
        ? whole + random.int(1, 6)
        : whole * random.int(2, 8);
  const hashSeed = random.pick([undefined, 7, 123n]);
  const quiet = random.chance(0.4);
  const options = {
    numBlocks: blocks + 1,
    blockSize,
    maxModelLen,
    maxNumSeqs: random.int(1, 10),
    maxNumBatchedTokens: random.chance(0.2) ? random.int(1, 10) : random.int(10, 48),
    policy: random.pick(['fcfs', 'priority'] as const),
    enablePrefixCaching: random.chance(0.75),
    longPrefillTokenThreshold: random.chance(0.6) ? 0 : random.int(1, 8),
    pipelineDepth: random.pick([1, 2, 3] as const),
    numSpeculativeTokens,
    speculativeMethod: random.pick(['ngram', 'eagle', 'draft_model'] as const),
    loadFailurePolicy: random.chance(0.3) ? ('fail' as const) : ('recompute' as const),
    ...(hashSeed === undefined ? {} : { hashSeed }),
  };
  return {
    options,
    numRequests: random.int(10, 40),
    watchesBlocks: random.chance(0.5),
    draftErrorRate: random.pick([0, 0.1, 0.4, 1]),
    tick: random.pick([0, 0.01, 3]),
    disposeAfter: random.chance(0.97) ? Infinity : random.int(1, 60),
    canOutgrow: pool < 0.1,
    rates: {
      defer: random.pick([0, 0.5, 1]),
      compute: random.pick([0.2, 0.5, 0.9]),
      abort: random.chance(0.5) ? 0 : 0.03,
      reset: random.chance(0.6) ? 0 : 0.05,
      stepFault: quiet ? 0 : random.pick([0, 0.01, 0.04]),
      loss: random.chance(0.8) ? 0 : 0.04,
      hold: random.chance(0.7) ? 0 : 0.3,
      rowFault: quiet ? 0 : random.pick([0, 0.01, 0.02]),
      inside: random.chance(0.7) ? 0 : 0.05,
    },
  };
}
