/** What `MultiConnector` says to the `MultiWorker` of each rank with a plan. */
export interface MultiMetadata {
  /** The first child index of each child, and behind them how many indexes there are. */
  readonly firsts: readonly number[];
  /** The metadata of each child; undefined where the child could make none. */
  readonly children: readonly unknown[];
}

/** What a `MultiWorker` says to its `MultiConnector`: for each child that said something its place, and what it said. */
export type MultiSaid = readonly (readonly [child: number, said: unknown])[];
