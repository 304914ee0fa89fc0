import { News } from '../../base/collections/news.js';
import type { BlockstepError } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import type { OutputEnd } from '../outputs/engine-outputs.js';
import { OutputsFeed } from '../outputs/outputs-feed.js';
import { RecentTokens } from './recent-tokens.js';

/**
 * The shared state of all streams of an engine: sums over unfinished streams, so that statistics
 * need no walk, and the observers.
 */
export class StreamTotals {
  readonly news = new News();
  readonly recent = new RecentTokens();
  /** The readers of all outputs. A change makes a new list, so that a list can be walked while readers leave. */
  feeds: readonly OutputsFeed[] = [];
  /** Unread tokens. */
  bufferedTokens = 0;
  /** Streams that a reader waits for. */
  readersWaiting = 0;

  /** Makes a feed for a reader of all outputs, until it ends. @param maxUnread tokens and rows that may wait at most */
  open(maxUnread: number): OutputsFeed {
    const feed = new OutputsFeed(this.news, maxUnread, () => {
      this.feeds = this.feeds.filter((each) => each !== feed);
    });
    this.feeds = [...this.feeds, feed];
    return feed;
  }

  /** Ends the feeds, behind what they have. @param failure rejects their readers; null = none */
  close(failure: BlockstepError | null): void {
    for (const feed of this.feeds) feed.end(failure);
  }

  /** Notifies the readers of all outputs how a request, or an answer of it, ended. */
  tellEnd(request: Request, close: Omit<OutputEnd, 'error'>, error: unknown): void {
    for (const feed of this.feeds) feed.addEnd(request, { ...close, error });
  }
}
