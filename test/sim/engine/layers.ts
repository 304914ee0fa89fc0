// The positions that the layers of each group read and keep.
import { firstNeeded, type GroupRule, keepsTokens } from '../audit/group-rules.js';
import { mix } from '../shared/text.js';
import type { EngineSetup } from './setup.js';

/**
 * Tokens for which a window keeps more places. They are drafts that a step asks places for, and
 * drafts in flight that may be rejected, with a last token.
 */
export function draftPlaces({
  numSpeculativeTokens = 0,
  speculativeMethod,
  ...engine
}: EngineSetup['engine']): number {
  // Where steps in flight keep what they may read, their drafts need no places beside their tokens.
  const { pipelineDepth = 1 } = engine;
  const inFlight = stepsKept(engine) > 1 ? 0 : (pipelineDepth - 1) * numSpeculativeTokens;
  return (speculativeMethod === 'ngram' ? 0 : numSpeculativeTokens) + (inFlight > 0 ? inFlight + 1 : 0);
}

/** Steps whose tokens let nothing go of a window yet. */
export function stepsKept({ like, windowBasis, pipelineDepth = 1 }: EngineSetup['engine']): number {
  const basis = windowBasis ?? (like === '017e9f444' ? 'processed' : 'scheduled');
  return basis === 'processed' ? pipelineDepth : 1;
}

/** The KV of a position: all of the text before it as it was read, and its token. */
export function contentOf(before: number, token: number): number {
  return mix(before, token);
}

/** The value that was read up to and including a position. */
function absorb(before: number, content: number): number {
  return mix(before + 1, content);
}

/**
 * The values that the layers of all groups read in front of positions, each as much as its group
 * shows it. Positions that follow each other are read in one go where nothing is ever out of sight.
 */
export class Reading {
  readonly #groups: readonly GroupRule[];
  readonly #root: number;
  readonly #content: (group: number, position: number) => number;
  /** Of each group: the value that was read in front of `#end`. */
  readonly #reads: number[];
  #end = 0;

  /** @param content the content at a position, or of a group of states: the state behind it */
  constructor(
    groups: readonly GroupRule[],
    root: number,
    content: (group: number, position: number) => number,
  ) {
    this.#groups = groups;
    this.#root = root;
    this.#content = content;
    this.#reads = groups.map(() => root);
  }

  /**
   * The value that a token at this position reads of the tokens before it. No position is earlier
   * than the one of the last call.
   */
  before(position: number): number {
    let all = 0;
    for (const [g, group] of this.#groups.entries()) {
      const read = this.#readGroup(g, group, position);
      all = g === 0 ? read : mix(all, read);
    }
    this.#end = position;
    return all;
  }

  /**
   * The KV that the layers of a group keep of a position whose token is `token`.
   * @param before the KV that was read in front of it
   */
  kept(g: number, position: number, before: number, token: number): number {
    const content = contentOf(before, token);
    if (keepsTokens(this.#groups[g])) return g === 0 ? content : mix(content, g);
    return mix(position === 0 ? this.#root : this.#content(g, position - 1), content);
  }

  #readGroup(g: number, group: GroupRule, position: number): number {
    const isAll = group.type === 'full' || group.type === 'sink';
    let read = isAll ? this.#reads[g] : this.#root;
    for (let p = isAll ? this.#end : firstNeeded(group, position); p < position; p++)
      read = absorb(read, this.#content(g, p));
    this.#reads[g] = read;
    return read;
  }
}
