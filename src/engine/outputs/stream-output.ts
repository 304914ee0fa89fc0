import { checkInteger } from '../../base/errors.js';
import { INSPECT } from '../../base/inspect.js';
import type { EndReason, OutputData, RequestOutput, StopReason } from './outputs.js';
import type { TokenList } from './token-list.js';

/** How an output ends its request, or an answer of it. */
export interface OutputClose {
  readonly finishReason: EndReason | null;
  readonly continues: boolean;
  readonly stopReason: StopReason | null;
}

/**
 * One output for a reader. Its arrays are made on access, because an array costs more than all else
 * of an output.
 */
export class StreamOutput implements RequestOutput {
  readonly numOutputTokens: number;
  readonly finishReason: EndReason | null;
  readonly continues: boolean;
  readonly stopReason: StopReason | null;
  readonly #made: TokenList;
  readonly #from: number;
  #tokens: Int32Array | null = null;
  /** undefined: not made yet. */
  #extras: unknown[] | null | undefined = undefined;

  /** @param made tokens of the request; the output has those from index `from` to before index `end` */
  constructor(
    made: TokenList,
    from: number,
    end: number,
    { finishReason, continues, stopReason }: OutputClose,
  ) {
    this.#made = made;
    this.#from = from;
    this.numOutputTokens = end;
    this.finishReason = finishReason;
    this.continues = continues;
    this.stopReason = stopReason;
    // Extras of later tokens do not belong to this output.
    if (!made.hasExtras) this.#extras = null;
  }

  get numTokens(): number {
    return this.numOutputTokens - this.#from;
  }

  tokenAt(index: number): number {
    return this.#made.at(this.#from + checkInteger('index', index, 0, this.numTokens - 1));
  }

  get tokens(): Int32Array {
    this.#tokens ??= this.#made.tokens(this.#from, this.numOutputTokens);
    return this.#tokens;
  }

  get extras(): readonly unknown[] | null {
    if (this.#extras === undefined) this.#extras = this.#made.extras(this.#from, this.numOutputTokens);
    return this.#extras;
  }

  /** The output as plain data, for `JSON.stringify`. */
  toJSON(): OutputData {
    const { tokens, extras, numOutputTokens, finishReason, continues, stopReason } = this;
    return { tokens, extras, numOutputTokens, finishReason, continues, stopReason };
  }

  /** For `console.log`: the output as plain data. */
  [INSPECT](): object {
    return this.toJSON();
  }
}
