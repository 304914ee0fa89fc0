// vLLM's `Request`, with its blocks.
import type { SubjectChunk, SubjectInput, SubjectRequest } from '../subject.js';
import { emptyRow, type Row } from './kv/row.js';

/** A request of the reference scheduler: vLLM's Request, with its blocks. */
export class ReferenceRequest implements SubjectRequest {
  status: string;
  stopReason: number | null = null;
  finishedParams: object | null = null;
  numComputedTokens = 0;
  numOutputPlaceholders = 0;
  drafts: number[] = [];
  /** Its blocks in each group. */
  readonly rows: readonly Row[];
  isPrefillChunk = false;
  /** The request has ended, and its blocks are no longer sent: vLLM has forgotten it. */
  isForgotten = false;
  /**
   * More drafts were taken from the request than it had computed: vLLM's decisions make no sense
   * from here on.
   */
  isOverdrawn = false;
  wasPreempted = false;
  /** Batches in flight whose tokens are dropped, because the request was preempted by force. */
  framesToDrop = 0;
  /** Tokens of all batches in flight. */
  numInFlight = 0;
  /** Tokens in flight from before its last preemption, and whether their outputs are dropped and not delivered. */
  numStale = 0;
  dropsStale = false;
  /** Tokens that the longest lookup of a single kind of group found, where that is more than all have; else 0. */
  junction = 0;
  /** The number of the batch that it was in last. */
  lastBatch = 0;
  /** Content names of its full stretches of tokens. */
  readonly names: number[] = [];
  readonly tokens: number[];
  numPromptTokens: number;
  arrivalTime: number;
  /** The stop conditions of the present answer; their `maxTokens` counts only in the first. */
  stops: SubjectChunk;
  /** A session's further input; null = its end. */
  readonly inputs: (SubjectChunk | null)[] = [];
  isResumable: boolean;
  /** The number of the chunk that is answered, from 0. */
  chunk = 0;

  constructor(
    readonly input: SubjectInput,
    readonly slot: number,
    numGroups: number,
  ) {
    this.rows = Array.from({ length: numGroups }, emptyRow);
    this.status = input.grammar ? 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' : 'WAITING';
    this.isResumable = input.resumable === true;
    this.arrivalTime = input.arrivalTime;
    this.stops = input;
    this.tokens = Array.from(input.prompt);
    this.numPromptTokens = this.tokens.length;
  }

  get handle(): number {
    return this.slot + 1;
  }

  get id(): string {
    return this.input.id;
  }

  get numTokens(): number {
    return this.tokens.length;
  }

  get numOutputTokens(): number {
    return this.tokens.length - this.numPromptTokens;
  }

  get numDraftTokens(): number {
    return this.drafts.length;
  }

  get isFinished(): boolean {
    return this.status.startsWith('FINISHED');
  }

  /** Goes on with a session's next chunk (vLLM _update_request_as_session). */
  begin(chunk: SubjectChunk): void {
    this.tokens.length = Math.min(this.tokens.length, this.numComputedTokens);
    this.tokens.push(...chunk.prompt);
    this.numPromptTokens = this.tokens.length;
    this.stops = chunk;
    this.arrivalTime = chunk.arrivalTime;
    this.status = 'WAITING';
    this.chunk++;
  }

  /** Appends a sampled token; the name of the reason if it ends the request (vLLM check_stop). */
  append(token: number, maxModelLen: number): 'stop' | 'length' | null {
    this.tokens.push(token);
    const { minTokens, eosTokenId, ignoreEos, stopTokenIds } = this.stops;
    const { maxTokens } = this.input;
    if (this.numOutputTokens < minTokens) return null;
    if (token === eosTokenId && !ignoreEos) return 'stop';
    if (stopTokenIds.includes(token)) {
      this.stopReason = token;
      return 'stop';
    }
    return this.numTokens >= maxModelLen || this.numOutputTokens >= maxTokens ? 'length' : null;
  }
}
