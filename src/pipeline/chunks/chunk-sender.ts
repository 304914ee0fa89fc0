import type { Chunk } from '../transport/chunk.js';

const FIRST_CAPACITY = 16;

/**
 * The outgoing chunks of one request. It collects tokens, cuts them into chunks, and sends only as
 * many chunks ahead as the receiver allows. Unsent tokens stay here, at most as many as the request
 * generates.
 *
 * The end of a chunk depends only on the tokens, not on time: a chunk is full, or an answer ends
 * with it. The texts of later stages are therefore the same at any speed.
 *
 * Invariants: `#sent <= #total`; `#ends` are ascending and beyond `#sent`. At most `window` chunks
 * with tokens are on their way, or with the receiver and not taken. No chunk follows the last one.
 */
export class ChunkSender {
  readonly #size: number;
  readonly #window: number;
  readonly #send: (chunk: Chunk) => void;
  /** Tokens and extras from `#sent` on; the first `#from` entries are sent already. */
  #tokens = new Int32Array(FIRST_CAPACITY);
  #extras: unknown[] | null = null;
  #from = 0;
  #total = 0;
  #sent = 0;
  /** Ends of answers, as token counts from the first token on. No chunk crosses them. */
  readonly #ends: number[] = [];
  #ended = false;
  #isOver = false;
  #number = 0;
  #taken = 0;
  /** Since when chunks wait to be taken, in milliseconds; -1: none waits. */
  #waitsSince = -1;

  /**
   * @param size tokens of a chunk; a chunk has fewer if the stage's answer ends
   * @param window maximum number of chunks that are sent and not taken
   */
  constructor(size: number, window: number, send: (chunk: Chunk) => void) {
    this.#size = size;
    this.#window = window;
    this.#send = send;
  }

  /** Whether the last chunk was sent. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Number of chunks sent. */
  get numSent(): number {
    return this.#number;
  }

  /** Number of the first chunk that was sent and not taken; 0: none. */
  get numWaiting(): number {
    return this.#number > this.#taken ? this.#taken + 1 : 0;
  }

  /** Since when the first of them waits, in milliseconds; -1: none waits. */
  get waitsSince(): number {
    return this.#waitsSince;
  }

  /** Number of tokens that wait to be sent. */
  get numUnsent(): number {
    return this.#total - this.#sent;
  }

  /**
   * Adds tokens after the previous ones.
   * @param flush true: an answer ends with them, so they are sent even if they fill no chunk
   * @param now milliseconds
   */
  add(tokens: Int32Array, extras: readonly unknown[] | null, flush: boolean, now: number): void {
    this.#append(tokens, extras);
    if (flush) this.#markEnd();
    this.#pump(now);
  }

  /** No more tokens come. */
  end(now: number): void {
    this.#ended = true;
    this.#markEnd();
    this.#pump(now);
  }

  /**
   * The receiver has computed all chunks up to this one. @returns false if the number is old or
   * impossible
   */
  taken(number: number, now: number): boolean {
    if (number <= this.#taken || number > this.#number) return false;
    this.#taken = number;
    this.#waitsSince = this.#taken < this.#number ? now : -1;
    this.#pump(now);
    return true;
  }

  #pump(now: number): void {
    while (this.#number - this.#taken < this.#window) {
      const [end = Number.POSITIVE_INFINITY] = this.#ends;
      const count = Math.min(this.#size, end - this.#sent);
      if (count > this.#total - this.#sent) break;
      if (this.#sent + count === end) this.#ends.shift();
      this.#emit(count, now);
    }
    // The last chunk has no tokens and costs the receiver nothing, so it need not wait.
    if (this.#ended && !this.#isOver && this.#sent === this.#total) this.#emit(0, now);
  }

  #markEnd(): void {
    if (this.#total > (this.#ends.at(-1) ?? this.#sent)) this.#ends.push(this.#total);
  }

  #emit(count: number, now: number): void {
    const from = this.#from;
    const tokens = this.#tokens.slice(from, from + count);
    const extras = this.#extras?.slice(from, from + count) ?? null;
    this.#from += count;
    this.#sent += count;
    // The end is sent as a chunk of its own, so that other chunks do not depend on when the end was
    // known.
    const isLast = count === 0;
    this.#isOver = isLast;
    if (this.#waitsSince < 0) this.#waitsSince = now;
    this.#send({ number: ++this.#number, tokens, extras, isLast });
  }

  #append(tokens: Int32Array, extras: readonly unknown[] | null): void {
    const kept = this.#total - this.#sent;
    if (this.#from + kept + tokens.length > this.#tokens.length) this.#makeRoom(kept, tokens.length);
    if (extras !== null || this.#extras !== null) {
      this.#extras ??= Array.from({ length: this.#from + kept }, () => undefined);
      for (let i = 0; i < tokens.length; i++) this.#extras[this.#from + kept + i] = extras?.[i];
    }
    this.#tokens.set(tokens, this.#from + kept);
    this.#total += tokens.length;
  }

  #makeRoom(kept: number, more: number): void {
    const need = kept + more;
    const grown = need > this.#tokens.length ? new Int32Array(2 * need) : this.#tokens;
    grown.set(this.#tokens.subarray(this.#from, this.#from + kept));
    this.#tokens = grown;
    this.#extras = this.#extras?.slice(this.#from, this.#from + kept) ?? null;
    this.#from = 0;
  }
}
