/** The message of a `MultiConnector` to the `MultiWorker` of each rank, sent with a plan. */
export interface MultiMetadata {
  /** The first child index of each child, followed by the total number of indexes. */
  readonly firsts: readonly number[];
  /** The metadata of each child; undefined if the child could make none. */
  readonly children: readonly unknown[];
}

/**
 * The message of a `MultiWorker` to its `MultiConnector`: the place and the message of each child
 * that has one.
 */
export type MultiSaid = readonly (readonly [child: number, said: unknown])[];
