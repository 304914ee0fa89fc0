import type { Heard, News } from '../../base/collections/news.js';
import { BlockstepError } from '../../base/errors.js';
import type { EngineOutputs, OutputEnd, OutputRequest } from './engine-outputs.js';
import { OutputRows } from './output-rows.js';

type Next = IteratorResult<EngineOutputs, undefined>;

const DONE: Next = Object.freeze({ done: true, value: undefined });

/**
 * The outputs that wait for one reader, and the reader's pending call. The reader is notified after
 * the step, as listeners of streams are (`News`).
 *
 * Invariants: while a call waits, the only unread outputs are those that `News` is about to
 * announce. `#fresh` and `#given` are two objects that alternate: the reader has `#given` until its
 * next call.
 */
export class OutputsFeed implements Heard {
  readonly #news: News;
  readonly #maxUnread: number;
  readonly #leave: (feed: OutputsFeed) => void;
  #fresh = new OutputRows();
  #given = new OutputRows();
  /** Settles the promise of the pending call; null if there is none. */
  #waiter: ((next: Next | Promise<Next>) => void) | null = null;
  #isOver = false;
  /** Why the outputs ended, until a call was rejected with it; null if there is no reason. */
  #failure: BlockstepError | null = null;
  isNews = false;

  /**
   * @param maxUnread the maximum number of tokens and rows that may wait
   * @param leave called when the reader wants no more outputs
   */
  constructor(news: News, maxUnread: number, leave: (feed: OutputsFeed) => void) {
    this.#news = news;
    this.#maxUnread = maxUnread;
    this.#leave = leave;
  }

  /** See `OutputsReader.next`. */
  next(): Promise<Next> {
    if (this.#waiter !== null) return Promise.reject(busy());
    if (this.#fresh.length > 0) return Promise.resolve(this.#drain());
    if (this.#isOver) return this.#last();
    return new Promise((resolve) => {
      this.#waiter = resolve;
    });
  }

  /** Called by the news. */
  readonly listener = (): void => {
    const waiter = this.#waiter;
    if (waiter === null) return;
    this.#waiter = null;
    waiter(this.next());
  };

  /** The rows of the reader's next item, to which tokens are added. `tell` announces them. */
  get rows(): OutputRows {
    return this.#fresh;
  }

  /** Adds the end of a request, or of an answer. */
  addEnd(request: OutputRequest, end: OutputEnd): void {
    this.#fresh.end(request, end);
    this.tell();
  }

  /**
   * Announces the added rows to the reader. If the reader is too slow, all of them are dropped, and
   * the outputs end.
   */
  tell(): void {
    const { length, numTokens } = this.#fresh;
    if (length + numTokens > this.#maxUnread) {
      this.#fresh.clear();
      this.end(tooSlow(length, numTokens, this.#maxUnread));
    } else if (length > 0) this.#news.add(this);
  }

  /**
   * Ends the outputs after those that came. @param failure rejects the reader; null: the outputs
   * end normally
   */
  end(failure: BlockstepError | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = failure;
    this.#leave(this);
    this.#news.add(this);
  }

  /** The reader leaves, so nothing more is kept for it. */
  close(): void {
    this.#fresh.clear();
    this.end(null);
    this.#failure = null;
  }

  #drain(): Next {
    const taken = this.#fresh;
    this.#given.clear();
    this.#fresh = this.#given;
    this.#given = taken;
    return { done: false, value: taken };
  }

  #last(): Promise<Next> {
    const failure = this.#failure;
    this.#failure = null;
    return failure === null ? Promise.resolve(DONE) : Promise.reject(failure);
  }
}

function busy(): BlockstepError {
  const message =
    'a call of next() of these outputs waits already: one reader reads them, and others call engine.outputs() themselves';
  return new BlockstepError('ERR_BLOCKSTEP_BUSY', message);
}

function tooSlow(rows: number, tokens: number, most: number): BlockstepError {
  const message = `the reader of the engine's outputs is too slow: ${tokens} tokens in ${rows} rows were unread, more than maxUnread ${most} in all; they were dropped`;
  return new BlockstepError('ERR_BLOCKSTEP_LIMIT', message);
}
