/** No token: its rank comes after all others. */
const NONE = -1;
/**
 * Words up to this number of bytes are merged by scanning all pairs, which is faster for them, and
 * are cached.
 */
const SHORT = 48;
const MOST_REMEMBERED = 2 ** 15;
const ASCII = /^[\0-\x7f]*$/;
/**
 * The place value of a pair's rank on the heap; the low part is the pair's position. Together they
 * stay below 2^53.
 */
const PLACES = 2 ** 32;

/**
 * Byte pair encoding in time linear in the length of a text, up to a logarithm. A word is split
 * into bytes. Then the adjacent parts that form the token of the lowest rank are merged repeatedly,
 * the first of equal ranks first. For a long word, a heap holds the pairs, because scanning all
 * pairs for every merge takes quadratic time.
 */
export class BytePairs {
  /** The rank of each token, by its bytes: each character of the key is a byte. */
  readonly #ranks = new Map<string, number>();
  readonly #words: RegExp;
  /** The tokens of short words that have occurred before. */
  readonly #remembered = new Map<string, readonly number[]>();
  /** The length of the longest token, in bytes. */
  readonly #longest: number;

  /**
   * @param tokens by rank: a text, or bytes that are not text @param words the pattern that splits
   * a text into words
   */
  constructor(tokens: readonly (string | readonly number[])[], words: RegExp) {
    let longest = 0;
    tokens.forEach((token, rank) => {
      const key = typeof token === 'string' ? bytesOf(token) : String.fromCharCode(...token);
      this.#ranks.set(key, rank);
      longest = Math.max(longest, key.length);
    });
    this.#longest = longest;
    this.#words = words;
  }

  encode(text: string): Int32Array {
    let tokens = new Int32Array(Math.max(16, Math.ceil(text.length / 2)));
    let count = 0;
    const put = (token: number): void => {
      if (count === tokens.length) {
        const more = new Int32Array(2 * count);
        more.set(tokens);
        tokens = more;
      }
      tokens[count++] = token;
    };
    for (const [word] of text.matchAll(this.#words)) {
      const bytes = bytesOf(word);
      const whole = this.#rankOf(bytes, 0, bytes.length);
      if (whole !== NONE) put(whole);
      else if (bytes.length > SHORT) this.#mergeLong(bytes, put);
      else for (const token of this.#short(bytes)) put(token);
    }
    return tokens.slice(0, count);
  }

  #rankOf(bytes: string, from: number, to: number): number {
    if (to - from > this.#longest) return NONE;
    return this.#ranks.get(bytes.slice(from, to)) ?? NONE;
  }

  #short(bytes: string): readonly number[] {
    let tokens = this.#remembered.get(bytes);
    if (tokens !== undefined) return tokens;
    tokens = this.#mergeShort(bytes);
    if (this.#remembered.size === MOST_REMEMBERED) this.#remembered.clear();
    this.#remembered.set(bytes, tokens);
    return tokens;
  }

  #mergeShort(bytes: string): number[] {
    const starts = Array.from({ length: bytes.length + 1 }, (_, i) => i);
    const ranks = starts.map((start) =>
      start + 2 <= bytes.length ? this.#rankOf(bytes, start, start + 2) : NONE,
    );
    for (;;) {
      let at = -1;
      for (let i = 0; i < starts.length - 2; i++)
        if (ranks[i] !== NONE && (at < 0 || ranks[i] < ranks[at])) at = i;
      if (at < 0) break;
      starts.splice(at + 1, 1);
      ranks.splice(at + 1, 1);
      for (const i of at > 0 ? [at - 1, at] : [at])
        ranks[i] = i + 2 < starts.length ? this.#rankOf(bytes, starts[i], starts[i + 2]) : NONE;
    }
    return starts.slice(0, -1).map((start, i) => this.#rankOf(bytes, start, starts[i + 1]));
  }

  /** Merges a long word. Parts are identified by the indices of their first bytes. */
  #mergeLong(bytes: string, put: (token: number) => void): void {
    const size = bytes.length;
    /**
     * By part: the index of the next part and of the previous one, and the rank of the part merged
     * with the next.
     */
    const nexts = new Int32Array(size + 1);
    const befores = new Int32Array(size + 1);
    const ranks = new Int32Array(size + 1).fill(NONE);
    // There are fewer merges than bytes, and each merge pops one pair and pushes at most two.
    const heap = new PairHeap(2 * size);
    const look = (part: number): void => {
      const next = nexts[part];
      const rank = next < size ? this.#rankOf(bytes, part, nexts[next]) : NONE;
      ranks[part] = rank;
      if (rank !== NONE) heap.push(rank * PLACES + part);
    };
    for (let i = 0; i <= size; i++) {
      nexts[i] = i + 1;
      befores[i] = i - 1;
    }
    for (let i = 0; i + 1 < size; i++) look(i);
    while (heap.size > 0) {
      const pair = heap.pop();
      const rank = Math.floor(pair / PLACES);
      const part = pair - rank * PLACES;
      // The part was merged with another one meanwhile.
      if (ranks[part] !== rank) continue;
      const gone = nexts[part];
      ranks[gone] = NONE;
      nexts[part] = nexts[gone];
      befores[nexts[gone]] = part;
      look(part);
      if (befores[part] >= 0) look(befores[part]);
    }
    for (let part = 0; part < size; part = nexts[part]) put(this.#rankOf(bytes, part, nexts[part]));
  }
}

/** The UTF-8 bytes of a text, each as a character. */
function bytesOf(text: string): string {
  if (ASCII.test(text)) return text;
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** A heap of numbers with a fixed capacity, the smallest first. */
class PairHeap {
  readonly #items: Float64Array;
  size = 0;

  constructor(capacity: number) {
    this.#items = new Float64Array(capacity);
  }

  push(item: number): void {
    const items = this.#items;
    let at = this.size++;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (items[above] <= item) break;
      items[at] = items[above];
      at = above;
    }
    items[at] = item;
  }

  /** Removes the smallest number. The heap must not be empty. */
  pop(): number {
    const items = this.#items;
    const least = items[0];
    const last = items[--this.size];
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= this.size) break;
      if (below + 1 < this.size && items[below + 1] < items[below]) below++;
      if (items[below] >= last) break;
      items[at] = items[below];
      at = below;
    }
    items[at] = last;
    return least;
  }
}
