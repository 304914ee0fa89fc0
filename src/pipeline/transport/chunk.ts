import type { ChunkInput } from '../../scheduler/request/session.js';

/** A piece of one stage's output for a request, sent to the next stage. Plain data. */
export interface Chunk {
  /** Number of the chunk, from 1, within one request and between two stages. */
  readonly number: number;
  /**
   * Token ids. The last chunk has none. Of the chunks between stages, only the last one has none.
   */
  readonly tokens: Int32Array;
  /** The executor's extra value for each of `tokens`; null if there are none. */
  readonly extras: readonly unknown[] | null;
  /** Whether no further chunk comes. */
  readonly isLast: boolean;
  /** The other fields of a chunk from the client of a session. */
  readonly fields?: Readonly<Omit<ChunkInput, 'prompt'>>;
}

/** Maximum number of chunks of a request under way: the upper limit of `maxChunksAhead`. */
export const MOST_AHEAD = 1024;
