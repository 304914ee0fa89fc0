import { BlockstepError } from '../../base/errors.js';
import { AsideLimitError } from '../../base/scripts/aside.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { ApiError } from './api-error.js';
import { checkText } from './fields.js';

/** Characters of a request whose tokens are made at once: it takes a few milliseconds with any tokenizer. */
const AT_ONCE = 2048;
const MAX_TEXT = 2 ** 30;
/** Seconds after which a client may try again, if its text was not tokenized in time. */
const BUSY_S = 10;

/**
 * Makes tokens of what clients send. A text that is too long for the model whatever its tokens are is refused before they are made, and
 * those of a long text are made off the event loop, where the vocabulary can do that.
 */
export class Encoder {
  readonly #vocabulary: Vocabulary;
  readonly #maxModelLen: number;

  /** @param maxModelLen most tokens of prompt and output together */
  constructor(vocabulary: Vocabulary, maxModelLen: number) {
    this.#vocabulary = vocabulary;
    this.#maxModelLen = maxModelLen;
  }

  /**
   * The tokens of a text.
   * @param name of the field that has it, for errors
   * @param addsSpecial whether the tokens are added with which every prompt begins
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

  /** Refuses what is too long, however few tokens it has. @param bytes of the text, or of a part of it @throws ApiError */
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
 * A text that no vocabulary makes tokens of is the client's matter. That it was not done in time is the machine's: the time grows with the
 * length of the text alone, and the longest has plenty.
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
