import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { EngineOutputs } from './engine-outputs.js';
import type { OutputsFeed } from './outputs-feed.js';

/** Options of `Engine.outputs`. */
export interface OutputsOptions {
  /**
   * The maximum number of tokens and rows that may wait unread, 1 to 2^30. Default 1,048,576, which
   * takes about 30 MB.
   */
  maxUnread?: number;
}

const MAX_UNREAD = 2 ** 20;

const OUTPUTS_OPTIONS = knownNames<OutputsOptions>('the options of outputs', { maxUnread: true });

/** @returns `maxUnread` @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseOutputsOptions(options: unknown): number {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, OUTPUTS_OPTIONS);
  const { maxUnread = MAX_UNREAD } = options as OutputsOptions;
  return checkInteger('maxUnread', maxUnread, 1, 2 ** 30);
}

/**
 * The outputs of all requests of an engine: `Engine.outputs`.
 *
 * Each item has the outputs since the previous item. A waiting reader gets the outputs of one step,
 * as soon as the executor has received its next step. Ends between steps, such as aborts, come
 * separately. Outputs that come while the reader is busy are collected into its next item. So a
 * slow reader stalls nobody. When more than `maxUnread` tokens and rows are unread, they are
 * dropped and the outputs end with ERR_BLOCKSTEP_LIMIT.
 *
 * Each reader gets everything that comes after it was made, at its own pace. Readers of single
 * requests still get their own outputs. The outputs end when the engine is disposed, after the ends
 * of its requests.
 */
export class OutputsReader implements AsyncIterableIterator<EngineOutputs>, AsyncDisposable {
  readonly #feed: OutputsFeed;

  /** @internal */
  constructor(feed: OutputsFeed) {
    this.#feed = feed;
  }

  /**
   * The outputs since the last item, as soon as there are any. They are valid until the next call.
   * @throws by rejection: ERR_BLOCKSTEP_BUSY while another call waits. Once ERR_BLOCKSTEP_LIMIT if
   * too much was unread, or the error that broke the engine, after which the outputs are over
   */
  next(): Promise<IteratorResult<EngineOutputs, undefined>> {
    return this.#feed.next();
  }

  /** Leaves: nothing more is collected for this reader. The requests continue. */
  return(): Promise<IteratorResult<EngineOutputs, undefined>> {
    this.#feed.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** As `return`, but rejects with `error`. */
  throw(error?: unknown): Promise<IteratorResult<EngineOutputs, undefined>> {
    this.#feed.close();
    return Promise.reject(error);
  }

  /** The reader itself, for `for await`. */
  [Symbol.asyncIterator](): this {
    return this;
  }

  /** As `return`. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#feed.close();
    return Promise.resolve();
  }
}
