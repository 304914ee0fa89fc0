import { BlockstepError } from '../../base/errors.js';
import { AsideLimitError } from '../../base/scripts/aside.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { ApiError } from './api-error.js';
import { checkText } from './fields.js';

/**
 * Texts of a request up to this number of characters are tokenized on the event loop. That takes a
 * few milliseconds with any tokenizer.
 */
const AT_ONCE = 2048;
const MAX_TEXT = 2 ** 30;
/** Seconds after which a client may retry if its text was not tokenized in time. */
const BUSY_S = 10;

/**
 * Tokenizes the texts of clients. A text that is too long for the model in any case is refused
 * without being tokenized. Long texts are tokenized off the event loop if the vocabulary supports
 * it.
 */
export class Encoder {
  readonly #vocabulary: Vocabulary;
  readonly #maxModelLen: number;

  /** @param maxModelLen the maximum number of tokens of prompt and output together */
  constructor(vocabulary: Vocabulary, maxModelLen: number) {
    this.#vocabulary = vocabulary;
    this.#maxModelLen = maxModelLen;
  }

  /**
   * Tokenizes a text.
   * @param name of the text's field, for errors
   * @param addsSpecial whether the special tokens are added with which every prompt begins
   * @param length characters of all texts of the request
   * @throws ApiError, also by rejection
   */
  encode(name: string, text: unknown, addsSpecial = true, length?: number): Int32Array | Promise<Int32Array> {
    const checked = checkText(name, text, MAX_TEXT);
    this.checkLength(name, Buffer.byteLength(checked));
    const { encodeAsync } = this.#vocabulary;
    if (encodeAsync !== undefined && (length ?? checked.length) > AT_ONCE)
      return encodeAsync
        .call(this.#vocabulary, checked, addsSpecial)
        .catch((error: unknown) => refuse(name, error));
    try {
      return this.#vocabulary.encode(checked, addsSpecial);
    } catch (error) {
      return refuse(name, error);
    }
  }

  /**
   * Refuses a text that is too long even with the fewest possible tokens.
   * @param bytes of the text, or of a part of it
   * @throws ApiError
   */
  checkLength(name: string, bytes: number): void {
    const { longestToken } = this.#vocabulary;
    if (longestToken === undefined || bytes <= this.#maxModelLen * longestToken) return;
    const least = Math.ceil(bytes / longestToken);
    throw new ApiError(
      400,
      `${name} has ${bytes} bytes, which are at least ${least} tokens: the model takes at most ${this.#maxModelLen}`,
      { param: name, code: 'context_length_exceeded' },
    );
  }
}

/**
 * A text that the vocabulary rejects is the client's error. A timeout is the server's, because even
 * the longest accepted text has ample time.
 */
function refuse(name: string, error: unknown): never {
  const isLimit = error instanceof AsideLimitError;
  if (isLimit && error.limit === 'time')
    throw new ApiError(
      503,
      `${name} was not tokenized in time, since the machine is busy: ${error.message}`,
      {
        code: 'overloaded',
        retryAfterSeconds: BUSY_S,
      },
    );
  const isText = error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_BAD_MODEL';
  if (!isText && !isLimit) throw error;
  throw new ApiError(400, `${name} cannot be tokenized: ${error.message}`, {
    param: name,
    code: 'invalid_value',
  });
}
