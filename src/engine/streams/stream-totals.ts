import type { News } from './news.js';

/** What all streams of an engine share: sums over those that have not ended, so that statistics need no walk, and the news. */
export interface StreamTotals {
  readonly news: News;
  /** Unread tokens. */
  bufferedTokens: number;
  /** Streams that a reader waits for. */
  readersWaiting: number;
}
