import type { SubjectInput, SubjectRequest } from '../subject.js';

/** A request of the reference scheduler: vLLM's Request, with its blocks. */
export class ReferenceRequest implements SubjectRequest {
  status = 'WAITING';
  stopReason: number | null = null;
  numComputedTokens = 0;
  numOutputPlaceholders = 0;
  drafts: number[] = [];
  blocks: number[] = [];
  /** Leading blocks of `blocks` that carry a content name. */
  numPublished = 0;
  isPrefillChunk = false;
  /** Batches in flight whose tokens are dropped, because the request was preempted by force. */
  framesToDrop = 0;
  readonly tokens: number[];
  readonly numPromptTokens: number;

  constructor(
    readonly input: SubjectInput,
    readonly slot: number,
  ) {
    this.tokens = Array.from(input.prompt);
    this.numPromptTokens = this.tokens.length;
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

  /** Appends a sampled token; the name of the reason if it ends the request (vLLM check_stop). */
  append(token: number, maxModelLen: number): 'stop' | 'length' | null {
    this.tokens.push(token);
    const { minTokens, maxTokens, eosTokenId, ignoreEos, stopTokenIds } = this.input;
    if (this.numOutputTokens < minTokens) return null;
    if (token === eosTokenId && !ignoreEos) return 'stop';
    if (stopTokenIds.includes(token)) {
      this.stopReason = token;
      return 'stop';
    }
    return this.numTokens >= maxModelLen || this.numOutputTokens >= maxTokens ? 'length' : null;
  }
}
