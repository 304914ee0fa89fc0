import type { Account } from './account.js';
import type { ChunkFacts, Conversation } from './conversation.js';
import { Violation } from './facts.js';
import { mostTokens } from './group-rules.js';
import type { Ledger } from './ledger.js';

/**
 * Chunks and ends of sessions: chunks that are answered at once, that wait, or that are refused.
 */
export class SessionAudit {
  readonly #ledger: Ledger;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** @param outcome the answer, or the code of the refusal */
  chunked(key: string | number, chunk: ChunkFacts, outcome: string): void {
    const account = this.#open(key, 'chunk');
    const expected = account === undefined ? 'skipped' : this.#add(account, chunk);
    if (outcome !== expected)
      throw new Violation('I14', `a chunk for ${key} was ${outcome}, expected ${expected}`);
  }

  #add(account: Account, chunk: ChunkFacts): string {
    const { rules } = this.#ledger;
    const conversation = account.conversation as Conversation;
    const said = conversation.isIdle ? Math.max(0, account.numTokens - 1) : account.numPrompt;
    const total = said + conversation.numQueued + chunk.prompt.length;
    if (total >= rules.maxModelLen || total > mostTokens(rules)) return 'ERR_BLOCKSTEP_UNFIT';
    if (!conversation.isIdle) {
      conversation.queue.push({ ...chunk, at: this.#ledger.now });
      return 'queued';
    }
    this.#ledger.startChunk(account, chunk);
    return 'started';
  }

  ended(key: string | number, outcome: string): void {
    const account = this.#open(key, 'end');
    let expected = 'skipped';
    if (account !== undefined) {
      const conversation = account.conversation as Conversation;
      conversation.hasEnded = true;
      expected = conversation.isIdle ? 'ended' : 'queued';
      if (conversation.isIdle) this.#ledger.end(account, 'abort', 'none');
    }
    if (outcome !== expected)
      throw new Violation('I14', `the end of ${key} was ${outcome}, expected ${expected}`);
  }

  /** The session that still takes it; a chunk without such a session is counted. */
  #open(key: string | number, event: 'chunk' | 'end'): Account | undefined {
    const ledger = this.#ledger;
    const account = typeof key === 'string' ? ledger.live.get(key) : ledger.known(key);
    if (account === undefined) ledger.anomaly(typeof key === 'string' ? `${event}-unknown` : 'stale-handle');
    else if (!account.isLive) ledger.anomaly(`${event}-finished`);
    else if (account.conversation === null) ledger.anomaly(`${event}-not-resumable`);
    else if (account.conversation.hasEnded)
      ledger.anomaly(event === 'chunk' ? 'chunk-after-end' : 'duplicate-end');
    else return account;
    return undefined;
  }
}
