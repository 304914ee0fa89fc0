/**
 * The minimum number of tokens kept per request: all that the steps in flight can sample, and
 * earlier ones that may be computed again.
 */
const KEPT = 256;

/** The end of one request's text as the executor knows it: the tokens that the executor sampled, and the drafts that it made. */
export class SequenceTail {
  /** Number of known tokens: the position after the last one. */
  length = 0;
  /** Number of leading tokens whose KV has been computed. The KV of rejected drafts does not count. */
  computed = 0;
  /** The last known tokens: those at the positions from `#from` up to `length`. */
  #tokens: number[] = [];
  #from = 0;
  #drafts: number[] = [];

  /**
   * Copies the request's tokens from the tables of a step.
   * @param ids the step's `inputIds`; this request has `count` of them from `from` on, -1 where a
   * step in flight makes the token
   * @param planned the position of the first of these tokens, by the plan
   * @param isAdmitted the step admits the request, with new blocks: KV computed earlier does not
   * count
   * @param samples the step samples a token of this request
   */
  place(
    ids: Int32Array,
    from: number,
    count: number,
    planned: number,
    isAdmitted: boolean,
    samples: boolean,
  ): void {
    // A plan's count of computed tokens is at least the true one, since it counts drafts as accepted. A smaller count means that the
    // request went back. Without any known token the plan's count is right.
    if (isAdmitted || planned < this.computed || this.length === 0) this.computed = planned;
    let known = count;
    while (known > 0 && ids[from + known - 1] < 0) known--;
    for (let i = Math.max(0, known - KEPT / 2); i < known; i++) this.#set(planned + i, ids[from + i]);
    const end = planned + known;
    if (samples && known === count) {
      // The plan knows the whole text, so it was made after all earlier drafts had been verified.
      this.#cut(end);
      this.computed = planned;
    } else if (known > 0 && end > this.length) this.length = end;
  }

  /** The token at a position; -1 if the token is not kept or not known. */
  tokenAt(position: number): number {
    const at = position - this.#from;
    return at >= 0 && position < this.length && at < this.#tokens.length ? this.#tokens[at] : -1;
  }

  /** Draft number `index`, from 0, of those after the last token; -1 if there is none. */
  draftAt(index: number): number {
    return index < this.#drafts.length ? this.#drafts[index] : -1;
  }

  /**
   * Appends the tokens that a step sampled after `end`: the accepted drafts, and one more, whose KV
   * is not computed yet.
   */
  sampled(end: number, tokens: Int32Array, from: number, count: number): void {
    this.#cut(end);
    for (let i = 0; i < count; i++) this.#set(end + i, tokens[from + i]);
    this.length = end + count;
    this.computed = this.length - 1;
  }

  /** Stores the drafts for the positions after the last token. */
  drafted(tokens: Int32Array | undefined, from: number, count: number): void {
    this.#drafts.length = 0;
    for (let i = 0; i < count; i++) this.#drafts.push((tokens as Int32Array)[from + i]);
  }

  /** Truncates the text at a position: tokens from there on are forgotten. */
  #cut(end: number): void {
    this.length = end;
    if (end < this.#from) {
      this.#tokens.length = 0;
      this.#from = end;
    } else if (end - this.#from < this.#tokens.length) this.#tokens.length = end - this.#from;
  }

  #set(position: number, token: number): void {
    const at = position - this.#from;
    // A token before the kept ones is not needed, because the tables have it. The kept tokens must
    // stay: they may be the only record of the text's end, also for a request that is computed
    // again.
    if (at < 0) return;
    if (at > this.#tokens.length) {
      this.#tokens.length = 0;
      this.#from = position;
      this.#tokens.push(token);
    } else if (at === this.#tokens.length) this.#tokens.push(token);
    else this.#tokens[at] = token;
    if (this.#tokens.length < 2 * KEPT) return;
    this.#tokens.splice(0, KEPT);
    this.#from += KEPT;
  }
}
