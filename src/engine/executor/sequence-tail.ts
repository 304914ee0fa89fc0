/** Tokens of one request that are kept: as many as steps in flight can bring, and some in front of them that may be asked for again. */
const KEPT = 256;

/** What an executor itself knows of the end of one request's text: tokens that it sampled, and drafts that it made. */
export class SequenceTail {
  /** Known tokens. */
  length = 0;
  /** Tokens whose KV has been computed: those in front of the first rejected draft. */
  computed = 0;
  /** The last known tokens, up to position `length`; the first of them stands at `#from`. */
  #tokens: number[] = [];
  #from = 0;
  #drafts: number[] = [];

  /**
   * Takes what the tables of a step say of this request.
   * @param ids the tokens of the step; this request has `count` of them from `from` on, -1 where a step in flight makes the token
   * @param planned the position of the first of them, by the plan
   * @param isAdmitted the request has new blocks: what it computed before does not count
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
    // A plan counts at least as much as computed as there is, unless the request goes back. If nothing is known here, the plan is right.
    if (isAdmitted || planned < this.computed || this.length === 0) this.computed = planned;
    let known = count;
    while (known > 0 && ids[from + known - 1] < 0) known--;
    for (let i = Math.max(0, known - KEPT / 2); i < known; i++) this.#set(planned + i, ids[from + i]);
    const end = planned + known;
    if (samples && known === count) {
      // The plan has the whole text: it was made when the drafts before it had been verified.
      this.#cut(end);
      this.computed = planned;
    } else if (known > 0 && end > this.length) this.length = end;
  }

  /** The token at a position; -1 if it is not kept, or not known. */
  tokenAt(position: number): number {
    const at = position - this.#from;
    return at >= 0 && position < this.length && at < this.#tokens.length ? this.#tokens[at] : -1;
  }

  /** The draft that was made for a place behind the last token; -1 if there is none. */
  draftAt(index: number): number {
    return index < this.#drafts.length ? this.#drafts[index] : -1;
  }

  /** Takes the tokens that a step sampled behind `end`: drafts that were accepted, and one more, whose KV is not computed yet. */
  sampled(end: number, tokens: Int32Array, from: number, count: number): void {
    this.#cut(end);
    for (let i = 0; i < count; i++) this.#set(end + i, tokens[from + i]);
    this.length = end + count;
    this.computed = this.length - 1;
  }

  /** Takes the drafts that were made behind the last token. */
  drafted(tokens: Int32Array | undefined, from: number, count: number): void {
    this.#drafts.length = 0;
    for (let i = 0; i < count; i++) this.#drafts.push((tokens as Int32Array)[from + i]);
  }

  /** Ends the text at a position: what was known behind it is forgotten. */
  #cut(end: number): void {
    this.length = end;
    if (end < this.#from) {
      this.#tokens.length = 0;
      this.#from = end;
    } else if (end - this.#from < this.#tokens.length) this.#tokens.length = end - this.#from;
  }

  #set(position: number, token: number): void {
    const at = position - this.#from;
    // A token in front of those that are kept is not needed: the tables have it. Those that are kept may be all that is known of the
    // text's end, also of a request that is computed again.
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
