// A generated workload in the shape of production traces.
import { checkNames, knownNames } from '../base/known-names.js';
import { Random } from '../base/random.js';
import { HASH_BLOCK_TOKENS, type Workload } from './workload.js';
import { WorkloadBuilder } from './workload-builder.js';

/** Options of `generateWorkload`. */
export interface GeneratorOptions {
  /** Number of requests, >= 1. */
  requests: number;
  /** Mean arrivals per second, > 0. */
  requestRate: number;
  /** Equal seeds give equal workloads. */
  seed: number;
}

const OPTIONS = knownNames<GeneratorOptions>('the options of generateWorkload', {
  requests: true,
  requestRate: true,
  seed: true,
});

/**
 * Prefixes that requests share, such as system prompts and documents: how many, and the longest of
 * them in hash blocks.
 */
const NUM_PREFIXES = 24;
const MAX_PREFIX_BLOCKS = 8;
/** Share of the requests that begin with one of these prefixes. */
const PREFIX_SHARE = 0.75;
/**
 * Tokens of a request's own part of the prompt, and of its output: the minimum, the mean above it,
 * the maximum.
 */
const OWN_TOKENS = { min: 16, mean: 480, max: 8192 };
const OUTPUT_TOKENS = { min: 1, mean: 160, max: 1024 };

/**
 * Generates a workload in the shape of production traces. It has Poisson arrivals, exponential
 * lengths, and a few shared prefixes of 512 to 4096 tokens. The first prefixes are used far more
 * often than the last ones.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an unknown option
 */
export function generateWorkload(options: GeneratorOptions): Workload {
  checkNames(options, OPTIONS);
  const random = new Random(options.seed);
  const builder = new WorkloadBuilder();
  const prefixes: number[][] = [];
  let nextId = 0;
  const freshIds = (count: number): number[] => Array.from({ length: count }, () => nextId++);
  for (let i = 0; i < NUM_PREFIXES; i++) prefixes.push(freshIds(1 + random.below(MAX_PREFIX_BLOCKS)));

  let arrivalMs = 0;
  for (let i = 0; i < options.requests; i++) {
    arrivalMs += random.exponential(1000 / options.requestRate);
    const shares = random.next() < PREFIX_SHARE;
    // Squaring a uniform number favours the first prefixes: the most used prefix gets a fifth of
    // the requests.
    const prefix = shares ? prefixes[Math.floor(random.next() ** 2 * NUM_PREFIXES)] : [];
    const ownTokens = drawLength(random, OWN_TOKENS);
    builder.add({
      arrivalMs,
      inputTokens: prefix.length * HASH_BLOCK_TOKENS + ownTokens,
      outputTokens: drawLength(random, OUTPUT_TOKENS),
      hashIds: [...prefix, ...freshIds(Math.ceil(ownTokens / HASH_BLOCK_TOKENS))],
    });
  }
  return builder.build(options.seed);
}

function drawLength(random: Random, range: { min: number; mean: number; max: number }): number {
  return Math.min(range.max, range.min + Math.floor(random.exponential(range.mean)));
}
