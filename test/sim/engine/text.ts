// The text of a computation without pages.
import type { GroupRule } from '../audit/group-rules.js';
import { END_TOKEN, mix, tokenOf } from '../shared/text.js';
import { Reading } from './layers.js';

/** Kinds of tokens that a grammar tells apart. */
const KINDS = 3;

/** The value in front of every text of this salt and adapter. */
export function rootOf(salt: string, adapter: string): number {
  let root = 1;
  for (const part of [salt, '/', adapter]) {
    for (let i = 0; i < part.length; i++) root = mix(root, part.charCodeAt(i));
  }
  return root;
}

/** The token that follows what was read; `kind` is what a grammar allows, -1 = anything. */
export function nextToken(read: number, kind: number): number {
  const token = tokenOf(read);
  return kind < 0 || token === END_TOKEN ? token : token - (token % KINDS) + kind;
}

/**
 * The kind of token that a grammar in this state allows next, and the state that a token leads to.
 */
export function allowedKind(state: number): number {
  return state % KINDS;
}
export function allows(state: number, token: number): boolean {
  return token === END_TOKEN || token % KINDS === allowedKind(state);
}
export function follow(state: number, token: number): number {
  return mix(state, token);
}

/** When an answer ends. */
export interface Stops {
  maxTokens: number;
  minTokens: number;
  eosTokenId: number;
  stopTokenIds: readonly number[];
}

export interface Answer {
  /** Position of its first token. */
  from: number;
  tokens: readonly number[];
  reason: 'stop' | 'length';
  /** By group: the content at its last token, which the next chunk's prompt takes the place of. */
  lastContents: readonly number[];
}

/**
 * All output of a model without pages: a pure function of prompt, salt, adapter, grammar and a
 * session's chunks. Behind the end of an answer the text goes on as long as somebody asks, until
 * the next chunk begins there.
 */
export class Transcript {
  readonly root: number;
  readonly maxModelLen: number;
  /** Ends of the answers so far. */
  readonly answers: Answer[] = [];
  readonly #groups: readonly GroupRule[];
  readonly #tokens: number[] = [];
  /** By group. */
  readonly #contents: number[][];
  #reading: Reading;
  readonly #chunks: { prompt: Int32Array; stops: Stops }[] = [];
  #stops: Stops;
  #promptEnd = 0;
  /** State of the grammar, or -1. */
  #state: number;
  /** The same at the end of the last answer. */
  #stateAtEnd: number;
  #hasEnded = false;

  constructor(
    prompt: Int32Array,
    root: number,
    stops: Stops,
    maxModelLen: number,
    grammarState: number,
    groups: readonly GroupRule[],
  ) {
    this.root = root;
    this.maxModelLen = maxModelLen;
    this.#groups = groups;
    this.#contents = groups.map(() => []);
    this.#reading = this.#read();
    this.#stops = stops;
    this.#state = grammarState;
    this.#stateAtEnd = grammarState;
    this.#prompt(prompt);
    // A session without a prompt generates nothing before its first chunk.
    this.#hasEnded = prompt.length === 0;
  }

  /** The session goes on behind the present answer, or behind those of the chunks before. */
  addChunk(prompt: Int32Array, stops: Stops): void {
    this.#chunks.push({ prompt, stops });
    if (this.#hasEnded) this.#begin();
  }

  token(position: number): number {
    this.#grow(position);
    return this.#tokens[position];
  }

  /**
   * The content that a group keeps of a position, for a request whose present prompt ends at
   * `promptEnd`. A request may end before it takes a chunk that this text has already.
   */
  content(position: number, group: number, promptEnd: number): number {
    this.#grow(position);
    const present = this.answers.find(({ from }) => from === promptEnd);
    if (present !== undefined && position === promptEnd + present.tokens.length - 1)
      return present.lastContents[group];
    return this.#contents[group][position];
  }

  /** Where the present prompt ends. */
  get promptEnd(): number {
    return this.#promptEnd;
  }

  /** The answer with this number, as soon as the chunk that it answers was given. */
  answer(index: number): Answer {
    while (this.answers.length <= index) this.#grow(this.#tokens.length);
    return this.answers[index];
  }

  #grow(position: number): void {
    while (this.#tokens.length <= position) this.#generate();
  }

  #generate(): void {
    const read = this.#reading.before(this.#tokens.length);
    const token = nextToken(read, this.#state < 0 ? -1 : allowedKind(this.#state));
    this.#push(token);
    if (this.#state >= 0) this.#state = follow(this.#state, token);
    if (this.#hasEnded) return;
    const reason = this.#stopsAt(token);
    if (reason === null) return;
    this.#hasEnded = true;
    this.#stateAtEnd = this.#state;
    const tokens = this.#tokens.slice(this.#promptEnd);
    const lastContents = this.#contents.map((contents) => contents[contents.length - 1]);
    this.answers.push({ from: this.#promptEnd, tokens, reason, lastContents });
    if (this.#chunks.length > 0) this.#begin();
  }

  #stopsAt(token: number): 'stop' | 'length' | null {
    const { maxTokens, minTokens, eosTokenId, stopTokenIds } = this.#stops;
    const length = this.#tokens.length;
    if (length < this.#promptEnd + minTokens) return length >= this.maxModelLen ? 'length' : null;
    if (token === eosTokenId || stopTokenIds.includes(token)) return 'stop';
    return length >= Math.min(this.maxModelLen, this.#promptEnd + maxTokens) ? 'length' : null;
  }

  /** The last token of an answer is dropped: it was never computed. */
  #begin(): void {
    const { prompt, stops } = this.#chunks.shift() as { prompt: Int32Array; stops: Stops };
    const last = this.answers.at(-1);
    const kept = last === undefined ? 0 : last.from + last.tokens.length - 1;
    for (const list of [this.#tokens, ...this.#contents]) list.length = kept;
    this.#reading = this.#read();
    this.#state = this.#stateAtEnd;
    this.#stops = stops;
    this.#hasEnded = false;
    this.#prompt(prompt);
  }

  #prompt(prompt: Int32Array): void {
    for (const token of prompt) this.#push(token);
    this.#promptEnd = this.#tokens.length;
  }

  #read(): Reading {
    return new Reading(this.#groups, this.root, (g, position) => this.#contents[g][position]);
  }

  #push(token: number): void {
    const at = this.#tokens.length;
    const before = this.#reading.before(at);
    this.#tokens.push(token);
    for (const [g, contents] of this.#contents.entries())
      contents.push(this.#reading.kept(g, at, before, token));
  }
}
