// The answer of a process whose steps were timed.

/** Workloads whose tail is looked at. */
export const TAIL_CASES = ['decode-256', 'decode-1024', 'mixed-256'] as const;
export type TailCase = (typeof TAIL_CASES)[number];

/** Events during a step, as bits. */
export enum Cause {
  gc = 1,
  /** The system gave the process a page of memory, which it touched for the first time. */
  fault = 2,
  /** The system gave the processor to somebody else. */
  preempted = 4,
}

/** The observations of one process, step by step. */
export interface Life {
  /** Microseconds of each step. */
  readonly times: readonly number[];
  /** Microseconds of as many turns of the bare loop, by turns with the steps. */
  readonly bare: readonly number[];
  /** Of a decode the tokens of the first request, of a mixed step the tokens that it computes. */
  readonly abouts: readonly number[];
  /** Bits of `Cause`. */
  readonly causes: readonly number[];
  readonly collections: number;
  /** Bytes that V8 allocated a step, those of this program's own questions included. */
  readonly bytesPerStep: number;
}
