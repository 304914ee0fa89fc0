import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import type { OutputsFeed } from '../outputs/outputs-feed.js';
import type { TokenList } from '../outputs/token-list.js';

/** The maximum number of steps whose tokens are kept. */
const STEPS = 32;
/**
 * Columns of a group. The streams of a group read their tokens in the same step. A step of a group
 * is one cache line of the processor.
 */
const COLUMNS = 16;
const GROUP = STEPS * COLUMNS;
/** Stands for no token. */
const NONE = -1;

/** A stream, as its column sees it. */
export interface ColumnOwner {
  readonly request: Request;
  /** Whether the stream must be notified of every step with a token for it. */
  readonly isAwaited: boolean;
  /** Its column, from 0; -1 = none. */
  column: number;
  /** The first step whose tokens it has not read. */
  since: number;
  /** Reads the content of its column. */
  pull(): void;
  /** Notifies its waiting reader. */
  wake(): void;
}

/** Finds the stream of a request. */
interface Streams {
  of(request: Request): ColumnOwner | undefined;
}

/**
 * The unread tokens of the last steps, in a column for each stream. A step writes its tokens, and
 * touches no stream that nobody waits for. A stream reads its column when somebody reads the
 * stream, and at least every `STEPS` steps. In each step another part of the streams reads theirs,
 * so that no step bears the cost of all.
 *
 * There is room for `STEPS` tokens for each stream that gets any. A stream that got none for that
 * long, such as a session that waits for input, gives its column back.
 *
 * Invariants: the token of a step is overwritten after `STEPS` steps, and every column was read
 * meanwhile. The request at `#rows[i]` owns the column `#columns[i]`. A column is in `#free` or has
 * an owner.
 */
export class RecentTokens {
  /** The number of steps written. */
  #step = 0;
  /** Group after group of columns, and in each of them step after step. */
  #tokens = new Int32Array(GROUP).fill(NONE);
  readonly #owners: (ColumnOwner | null)[] = [];
  readonly #free: number[] = [];
  /** By column: 1 = its stream is awaited. */
  #awaited = new Uint8Array(COLUMNS);
  /**
   * The requests that had one token in the last step, in its order; the next step mostly has the
   * same.
   */
  readonly #rows: Request[] = [];
  readonly #columns: number[] = [];
  /**
   * The remaining work for the last step, in the order of its rows. An entry is the number of a row
   * that was not handled, or -1 - c for column c whose stream is awaited.
   */
  left: Int32Array = new Int32Array(COLUMNS);
  numLeft = 0;

  /**
   * Writes the tokens of a step. Rows with an end, with no token or several, or without a stream
   * are left for the caller.
   * @returns tokens written
   */
  write(outputs: StepOutputs, streams: Streams): number {
    const { requests, tokens, tokenOffsets, tokenCounts, finishReasons, length } = outputs;
    const rows = this.#rows;
    const columns = this.#columns;
    if (this.left.length < length) this.left = new Int32Array(2 * length);
    const { left } = this;
    const place = placeOf(this.#step);
    let numLeft = 0;
    let to = this.#tokens;
    let awaited = this.#awaited;
    let at = 0;
    for (let row = 0; row < length; row++) {
      if ((finishReasons[row] | (tokenCounts[row] ^ 1)) !== 0) {
        left[numLeft++] = row;
        continue;
      }
      const request = requests[row];
      if (rows[at] !== request) {
        // The request at this place has no token this time, so the others move up.
        if (rows[at + 1] === request) this.#cut(at);
        else {
          const stream = streams.of(request);
          if (stream === undefined) {
            left[numLeft++] = row;
            continue;
          }
          this.#enter(at, stream);
          to = this.#tokens;
          awaited = this.#awaited;
        }
      }
      const column = columns[at++];
      to[groupOf(column) + place] = tokens[tokenOffsets[row]];
      if (awaited[column] !== 0) left[numLeft++] = -1 - column;
    }
    if (rows.length > at) this.#forgetFrom(at);
    this.numLeft = numLeft;
    this.#step++;
    return at;
  }

  /** Passes the tokens that the last `write` wrote to a feed. */
  feed({ rows: fresh }: OutputsFeed): void {
    const place = placeOf(this.#step - 1);
    const tokens = this.#tokens;
    const rows = this.#rows;
    const columns = this.#columns;
    for (let i = 0; i < rows.length; i++) fresh.add(rows[i], tokens[groupOf(columns[i]) + place]);
  }

  /** The stream of a column; null if it has ended. */
  owner(column: number): ColumnOwner | null {
    return this.#owners[column];
  }

  /**
   * Lets the streams whose turn it is read their tokens. Must be called once after each `write`.
   */
  rotate(): void {
    const owners = this.#owners;
    for (let column = COLUMNS * ((this.#step - 1) % STEPS); column < owners.length; column += GROUP) {
      const end = Math.min(column + COLUMNS, owners.length);
      for (let i = column; i < end; i++) {
        const owner = owners[i];
        if (owner === null) continue;
        owner.pull();
        if (this.#isIdle(i)) this.release(owner);
      }
      this.#tokens.fill(NONE, groupOf(column), groupOf(column) + GROUP);
    }
  }

  /** Appends the tokens in a stream's column to a list. */
  drain(owner: ColumnOwner, list: TokenList): void {
    const { column, since } = owner;
    const step = this.#step;
    if (since === step) return;
    owner.since = step;
    const group = groupOf(column);
    const from = placeOf(since);
    if (since === step - 1) {
      const token = this.#tokens[group + from];
      if (token !== NONE) list.push(token);
      return;
    }
    const to = placeOf(step);
    // The column is a ring buffer.
    if (to <= from) list.appendColumn(this.#tokens, group + from, group + GROUP, COLUMNS);
    list.appendColumn(this.#tokens, group + (to <= from ? 0 : from), group + to, COLUMNS);
  }

  /** Notes whether a stream is awaited. */
  setAwaited({ column, isAwaited }: ColumnOwner): void {
    if (column >= 0) this.#awaited[column] = isAwaited ? 1 : 0;
  }

  /** Frees the column of a stream that has read it. */
  release(owner: ColumnOwner): void {
    const { column } = owner;
    if (column < 0) return;
    owner.column = -1;
    this.#owners[column] = null;
    this.#free.push(column);
    for (let at = this.#columns.indexOf(column); at >= 0; at = this.#columns.indexOf(column, at))
      this.#cut(at);
  }

  /** Whether no kept step had a token for a column. */
  #isIdle(column: number): boolean {
    const group = groupOf(column);
    for (let i = this.#step - 1; i >= this.#step - STEPS && i >= 0; i--)
      if (this.#tokens[group + placeOf(i)] !== NONE) return false;
    return true;
  }

  /** Makes a stream the owner of the next column of the rows. */
  #enter(at: number, stream: ColumnOwner): void {
    if (stream.column < 0) this.#give(stream);
    this.#rows.splice(at, 0, stream.request);
    this.#columns.splice(at, 0, stream.column);
  }

  #give(stream: ColumnOwner): void {
    const column = this.#free.pop() ?? this.#owners.length;
    if (column === this.#awaited.length) this.#widen();
    this.#owners[column] = stream;
    stream.column = column;
    stream.since = this.#step;
    this.setAwaited(stream);
  }

  #cut(at: number): void {
    this.#rows.splice(at, 1);
    this.#columns.splice(at, 1);
  }

  #forgetFrom(at: number): void {
    this.#rows.length = at;
    this.#columns.length = at;
  }

  /** Makes room for twice as many columns. */
  #widen(): void {
    const tokens = new Int32Array(2 * this.#tokens.length).fill(NONE);
    tokens.set(this.#tokens);
    this.#tokens = tokens;
    const awaited = new Uint8Array(2 * this.#awaited.length);
    awaited.set(this.#awaited);
    this.#awaited = awaited;
  }
}

/** The index where the group of a column begins, plus the column's place in it. */
function groupOf(column: number): number {
  return ((column & -COLUMNS) * STEPS) | (column & (COLUMNS - 1));
}

/** The offset of a step in a group. */
function placeOf(step: number): number {
  return (step % STEPS) * COLUMNS;
}
