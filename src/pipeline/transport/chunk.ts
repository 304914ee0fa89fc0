import type { ChunkInput } from '../../scheduler/request/session.js';

/** A piece of what one stage made of a request, as it goes to the next stage. Plain data. */
export interface Chunk {
  /** Counts the chunks of one request from one stage to the next, from 1 on. */
  readonly number: number;
  /** Token ids. The last chunk has none, and of those of stages only the last one. */
  readonly tokens: Int32Array;
  /** The executor's extra value for each of `tokens`; null if there are none. */
  readonly extras: readonly unknown[] | null;
  /** Whether no further chunk comes. */
  readonly isLast: boolean;
  /** Of a chunk that comes from the client of a session: its other fields. */
  readonly fields?: Readonly<Omit<ChunkInput, 'prompt'>>;
}

/** Most chunks of a request that may be on their way: the most that `maxChunksAhead` allows. */
export const MOST_AHEAD = 1024;
