// A run of one seed: its options, its outcome, its failure.

/** How one seed is run. */
export interface RunOptions<F extends string> {
  /** Events with faults. */
  steps: number;
  /** Kinds of faults that are left out. */
  without: readonly F[];
}

/** The counts of one run, by name; to be summed up over seeds. */
export type Tally = Record<string, number>;

/** The failure of one run. */
export interface Failure<S, F extends string> {
  seed: number;
  /** The event at which it went wrong; beyond the last event it is the phase without faults. */
  step: number;
  /** `I1` to `I20`, or `simulator` if the simulator itself threw. */
  invariant: string;
  message: string;
  /** The last events before it, oldest first. */
  journal: readonly string[];
  setup: S;
  without: readonly F[];
}

/** The result of one run. */
export interface Outcome<S, F extends string> {
  /** Null if nothing broke. */
  failure: Failure<S, F> | null;
  /** Empty if something broke. */
  tally: Tally;
}
