import type { SubjectGroupPlan, SubjectPlan } from '../subject.js';
import type { BlockCopy } from './kv/group.js';
import type { ReferenceRequest } from './request.js';

/** One scheduled request. */
export interface Entry {
  request: ReferenceRequest;
  kind: 0 | 1 | 2;
  tokens: number;
  /** Before the step. */
  computed: number;
  drafts: number[];
  /** By group. */
  newBlocks: number[];
  outputs: number;
  needsAllTokens: boolean;
}

/** A plan made from a list of entries. */
export class ReferencePlan implements SubjectPlan {
  readonly numRequests: number;
  readonly totalTokens: number;
  readonly requests: ReferenceRequest[];
  readonly kinds: Uint8Array;
  readonly slots: Int32Array;
  readonly numScheduledTokens: Int32Array;
  readonly numComputedTokens: Int32Array;
  readonly groups: readonly SubjectGroupPlan[];
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
  readonly numCommonPrefixBlocks: number;
  readonly blocksToZero?: Int32Array | null;
  readonly numDraftTokens: Int32Array;
  readonly draftTokens: Int32Array;
  readonly numInvalidDraftTokens: Uint8Array;
  pendingStructuredOutputTokens = false;
  readonly needsAllTokens: Uint8Array;

  constructor(
    readonly entries: Entry[],
    readonly maxDrafts: number,
    readonly preempted: string[],
    readonly finished: string[],
    commonPrefixes: readonly number[],
    blocksToZero: Int32Array | null | undefined,
    /** Blocks that are copied before the step computes, in this order. */
    readonly copies: readonly BlockCopy[],
  ) {
    this.numRequests = entries.length;
    this.totalTokens = entries.reduce((sum, entry) => sum + entry.tokens, 0);
    this.requests = entries.map((entry) => entry.request);
    this.kinds = Uint8Array.from(entries, (entry) => entry.kind);
    this.slots = Int32Array.from(entries, (entry) => entry.request.slot);
    this.numScheduledTokens = Int32Array.from(entries, (entry) => entry.tokens);
    this.numComputedTokens = Int32Array.from(entries, (entry) => entry.computed);
    this.groups = commonPrefixes.map((numCommonPrefixBlocks, group) => ({
      numBlocks: Int32Array.from(entries, ({ request }) => request.rows[group].blocks.length),
      numNewBlocks: Int32Array.from(entries, ({ newBlocks }) => newBlocks[group]),
      numCommonPrefixBlocks,
    }));
    [
      {
        numBlocks: this.numBlocks,
        numNewBlocks: this.numNewBlocks,
        numCommonPrefixBlocks: this.numCommonPrefixBlocks,
      },
    ] = this.groups;
    if (blocksToZero !== undefined) this.blocksToZero = blocksToZero;
    this.numDraftTokens = Int32Array.from(entries, (entry) => entry.drafts.length);
    this.draftTokens = new Int32Array(entries.length * maxDrafts);
    for (const [i, entry] of entries.entries()) this.draftTokens.set(entry.drafts, i * maxDrafts);
    this.numInvalidDraftTokens = new Uint8Array(entries.length);
    this.needsAllTokens = Uint8Array.from(entries, (entry) => (entry.needsAllTokens ? 1 : 0));
  }

  /** vLLM's get_grammar_bitmask: it lists a request that has ended as long as it is still sent. */
  bitmaskEntries(): number[] {
    return [...this.requests.keys()].filter((i) => {
      const { input, isPrefillChunk, isForgotten } = this.requests[i];
      return input.grammar !== undefined && !isPrefillChunk && !isForgotten;
    });
  }

  numOutputTokens(i: number): number {
    return this.entries[i].outputs;
  }
}
