import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import type { OutputsFeed } from '../outputs/outputs-feed.js';
import type { TokenList } from '../outputs/token-list.js';

/** Steps whose tokens are kept at most. */
const STEPS = 32;
/** Columns of a group. Their streams take their tokens in the same step. A step of a group is a line of the processor's cache. */
const COLUMNS = 16;
const GROUP = STEPS * COLUMNS;
/** Stands for no token. */
const NONE = -1;

/** A stream, as its column sees it. */
export interface ColumnOwner {
  readonly request: Request;
  /** Whether it is to be told of every step that brings it something. */
  readonly isAwaited: boolean;
  /** Its column, from 0; -1 = none. */
  column: number;
  /** The step from which on it has not taken its tokens. */
  since: number;
  /** Takes what stands in its column. */
  pull(): void;
  /** Tells whoever waits for it. */
  wake(): void;
}

/** Finds the stream of a request. */
interface Streams {
  of(request: Request): ColumnOwner | undefined;
}

/**
 * The tokens of the last steps that streams have not taken yet, in a column for each stream. A step writes its tokens, and touches no
 * stream that nobody waits for. A stream takes its column when somebody reads it, and every `STEPS` steps at the latest. In each step
 * another part of the streams takes theirs, so that no step pays for all.
 *
 * Held are `STEPS` tokens for each stream that gets any. A stream that got none for so long, such as a session that waits for input,
 * gives its column back.
 *
 * Invariants: the token of a step is written over after `STEPS` steps, and every column was taken meanwhile. The request at `#rows[i]`
 * owns the column `#columns[i]`. A column is in `#free` or has an owner.
 */
export class RecentTokens {
  /** Steps that were written. */
  #step = 0;
  /** Group after group of columns, and in each of them step after step. */
  #tokens = new Int32Array(GROUP).fill(NONE);
  readonly #owners: (ColumnOwner | null)[] = [];
  readonly #free: number[] = [];
  /** By column: 1 = its stream is awaited. */
  #awaited = new Uint8Array(COLUMNS);
  /** The requests that had one token in the last step, in its order: mostly the next step has the same. */
  readonly #rows: Request[] = [];
  readonly #columns: number[] = [];
  /**
   * What is left to do for the last step, in the order of its rows: a row number for a row that was not taken, and -1 - c for column c
   * whose stream is awaited.
   */
  left: Int32Array = new Int32Array(COLUMNS);
  numLeft = 0;

  /**
   * Writes the tokens of a step. Left are rows with an end, with no token or several, and without a stream.
   * @returns tokens taken
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
        // The request that stood here has no token this time: the others move up.
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

  /** Hands a feed the tokens that the last `write` took. */
  feed({ rows: fresh }: OutputsFeed): void {
    const place = placeOf(this.#step - 1);
    const tokens = this.#tokens;
    const rows = this.#rows;
    const columns = this.#columns;
    for (let i = 0; i < rows.length; i++) fresh.add(rows[i], tokens[groupOf(columns[i]) + place]);
  }

  /** The stream of a column; null: it has ended. */
  owner(column: number): ColumnOwner | null {
    return this.#owners[column];
  }

  /** Has the streams take their tokens whose turn it is. To be called once behind each `write`. */
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

  /** Appends to a list what stands in the column of a stream. */
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
    // The steps go round.
    if (to <= from) list.appendColumn(this.#tokens, group + from, group + GROUP, COLUMNS);
    list.appendColumn(this.#tokens, group + (to <= from ? 0 : from), group + to, COLUMNS);
  }

  /** Notes whether a stream is awaited. */
  setAwaited({ column, isAwaited }: ColumnOwner): void {
    if (column >= 0) this.#awaited[column] = isAwaited ? 1 : 0;
  }

  /** Takes the column of a stream back, which has taken what stands there. */
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

  /** Makes a stream the owner of a column that stands next in the rows. */
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

/** Where the group of a column begins, with the column's place in it. */
function groupOf(column: number): number {
  return ((column & -COLUMNS) * STEPS) | (column & (COLUMNS - 1));
}

/** Where a step stands in a group. */
function placeOf(step: number): number {
  return (step % STEPS) * COLUMNS;
}
