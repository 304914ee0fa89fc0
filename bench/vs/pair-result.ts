/** The result of one process: microseconds of either build, or the fault of one of them. */
export type PairResult =
  | { readonly first: Spread; readonly second: Spread }
  | { readonly wrong: 'first' | 'second'; readonly error: string };

export interface Spread {
  readonly p10: number;
  readonly p50: number;
}

/** The case that makes a scheduler with either build, and nothing else: whether both can be loaded. */
export const PROBE = 'probe';
