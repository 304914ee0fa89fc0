import { Random } from '../../src/base/random.js';

/** One request of a workload. */
export interface Job {
  readonly prompt: readonly number[];
  /** Tokens that are generated, whatever they are. */
  readonly out: number;
}

/** Requests that all come at once. */
export interface Workload {
  readonly name: string;
  readonly jobs: readonly Job[];
}

/** The longest text of all workloads but the long one. */
const SHORT = 512;

/** The names of the workloads, and the longest text of each. */
export const WORKLOADS = {
  decode: 128,
  mixed: SHORT,
  shared: SHORT,
  long: 2048,
  prompt: 2048,
  texts: 8064,
  full: 128,
} as const;

export type WorkloadName = keyof typeof WORKLOADS;

/**
 * Short prompts with longer answers; mixed prompts; a long prefix that all prompts share; long
 * prompts with longer answers. The last workload has long and longer prompts with short answers, as
 * many as may run at once.
 */
export function makeWorkload(name: WorkloadName, vocabSize: number, numSequences: number): Workload {
  const random = new Random(5);
  const tokens = (count: number): number[] =>
    Array.from({ length: count }, () => 300 + random.below(vocabSize - 300));
  const count = Math.max(4, Math.ceil(1.5 * numSequences));
  const jobs = (make: () => Job): Job[] => Array.from({ length: count }, make);
  const atOnce = (length: number): Job[] =>
    Array.from({ length: numSequences }, () => ({ prompt: tokens(length), out: 8 }));
  switch (name) {
    case 'decode':
    case 'full':
      return { name: 'decode (16 in, 64 out)', jobs: jobs(() => ({ prompt: tokens(16), out: 64 })) };
    case 'mixed':
      return {
        name: 'mixed (32 to 256 in, 8 to 64 out)',
        jobs: jobs(() => ({ prompt: tokens(32 + random.below(225)), out: 8 + random.below(57) })),
      };
    case 'shared': {
      const prefix = tokens(384);
      return {
        name: 'shared prefix (384 and 32 in, 32 out)',
        jobs: jobs(() => ({ prompt: [...prefix, ...tokens(32)], out: 32 })),
      };
    }
    case 'long':
      return { name: 'long (1,792 in, 64 out)', jobs: jobs(() => ({ prompt: tokens(1792), out: 64 })) };
    case 'prompt':
      return { name: 'prompt (2,000 in, 8 out)', jobs: atOnce(2000) };
    case 'texts':
      return { name: 'texts (8,000 in, 8 out)', jobs: atOnce(8000) };
  }
}
