import { Account } from './account.js';
import type { ChunkFacts, Conversation } from './conversation.js';
import { type Asked, type Reason, type Rules, Violation } from './facts.js';

/** Every request that there ever was, which of them live, and the reports that each must get. */
export class Ledger {
  readonly rules: Rules;
  readonly accounts = new Map<number, Account>();
  /** Unfinished, in the order in which they were added. */
  readonly live = new Map<string, Account>();
  /** Finished, and something uses their blocks. */
  readonly held = new Set<Account>();
  /** Ended outside of an update, so that their rows are due with the next one. */
  readonly due = new Set<Account>();
  /** External ids that the next plan must name, and their handles. */
  finishedIds: string[] = [];
  finishedHandles: number[] = [];
  /** Anomalies that were caused, by reason. */
  readonly anomalies = new Map<string, number>();
  /** Ended requests whose end the connector must still get in the same call. */
  readonly untold = new Set<Account>();
  now = 0;
  /** Aborts of which it is not known here whether they were asked for in time to be passed on. */
  unsureAborts = 0;
  /** The call is one that ends waits which took too long. */
  isScheduling = false;
  /** Plans that were begun. */
  numPlans = 0;
  /** The step that is updated. */
  updating = -1;
  /** No request is taken in. */
  isPaused = false;
  /** About whom the connector asked for patience in this call. */
  readonly patient = new Set<number>();
  /** The request whose end is just being reported to the connector. */
  telling: Account | null = null;
  /** Finished, and nobody waits for their blocks any more. */
  quarantined: ReadonlySet<number> = new Set();
  /** External ids that may be named by the plan after the next one: they ended at the end of this call. */
  endedLate = 0;
  /** Reports of bad blocks of which it is not known here whether they came too late. */
  unclear = 0;
  /** Reports about a block that another child loads, which may be about what was let go of it. */
  unclearOwners = 0;
  /**
   * Chunks whose answer was begun, and how many tokens stand before each: the part that knows the
   * texts takes them.
   */
  readonly started: { handle: number; kept: number; chunk: ChunkFacts }[] = [];
  #incarnations = new Map<string, number>();

  constructor(rules: Rules) {
    this.rules = rules;
  }

  open(handle: number, asked: Asked): Account {
    if (this.accounts.has(handle)) throw new Violation('I20', `handle ${handle} was given out twice`);
    const nth = (this.#incarnations.get(asked.id) ?? 0) + 1;
    this.#incarnations.set(asked.id, nth);
    const account = new Account(handle, asked, nth);
    this.accounts.set(handle, account);
    this.live.set(asked.id, account);
    if (asked.hasGrammar) account.grammarSince = this.now;
    if (account.conversation !== null && asked.prompt.length === 0) account.conversation.idleSince = this.now;
    else Object.assign(account, { queuedSince: this.now, timedSince: this.now });
    return account;
  }

  /** The request that a handle names as long as it lives or its blocks are held. */
  known(handle: number): Account | undefined {
    const account = this.accounts.get(handle);
    return account !== undefined && (account.isLive || account.uses.size > 0) ? account : undefined;
  }

  account(handle: number): Account {
    const account = this.accounts.get(handle);
    if (account === undefined) throw new Violation('I20', `handle ${handle} was never given out`);
    return account;
  }

  end(account: Account, reason: Reason, notice: 'none' | 'due' | 'given'): void {
    if (!account.isLive) throw new Violation('I14', `${account.name} ended twice`);
    if (account.toldReason !== null && account.toldReason !== reason) {
      const told = `its connector was told ${account.toldReason}`;
      throw new Violation('I14', `${account.name} ended with ${reason}, ${told}`);
    }
    account.reason = reason;
    account.notice = notice;
    account.endedAt = this.now;
    account.mayFail = null;
    this.live.delete(account.asked.id);
    this.finishedIds.push(account.asked.id);
    this.finishedHandles.push(account.handle);
    if (notice === 'due') this.due.add(account);
    if (this.rules.reporters !== null && account.timesFinished === 0) this.untold.add(account);
    if (account.uses.size > 0) this.held.add(account);
  }

  use(account: Account, key: string): boolean {
    if (account.uses.has(key)) return false;
    account.uses.add(key);
    if (!account.isLive) this.held.add(account);
    return true;
  }

  unuse(account: Account, key: string): boolean {
    if (!account.uses.delete(key)) return false;
    account.ended.add(key);
    if (account.uses.size === 0) this.held.delete(account);
    return true;
  }

  /** The answer to a chunk has ended, and the session goes on: with the next chunk, or when that comes. */
  continues(account: Account): void {
    const conversation = account.conversation as Conversation;
    account.hasContinued = true;
    // Preempted since, it may have waited for a load: it goes on without.
    Object.assign(account, { loadingSince: -1, waitedSince: -1, loadFailed: false });
    account.wasPreempted = false;
    const next = conversation.queue.shift();
    Object.assign(account, { queuedSince: -1, timedSince: -1, askingSince: -1 });
    if (next === undefined) conversation.idleSince = this.now;
    else this.startChunk(account, next);
  }

  /** The last token of the answer before is dropped: nothing was computed from it. */
  startChunk(account: Account, chunk: ChunkFacts): void {
    const conversation = account.conversation as Conversation;
    const kept = Math.max(0, account.numTokens - 1);
    conversation.idleSince = -1;
    Object.assign(account, { queuedSince: this.now, timedSince: chunk.at ?? this.now });
    account.numTokens = kept + chunk.prompt.length;
    account.numPrompt = account.numTokens;
    account.stops = chunk.stops;
    this.started.push({ handle: account.handle, kept, chunk });
  }

  /** The time limit that the request has exceeded by now; null if there is none. */
  lateFor({ queuedSince, timedSince, asked }: Account): string | null {
    const { queueDeadline } = this.rules;
    if (queuedSince >= 0 && queueDeadline > 0 && this.now - queuedSince >= queueDeadline) {
      return `stands in the queue since ${queuedSince}`;
    }
    if (timedSince < 0 || asked.timeoutMs === undefined) return null;
    return this.now - timedSince >= asked.timeoutMs ? `has its time since ${timedSince}` : null;
  }

  /** A request waits for a load from now on. */
  waits(account: Account): void {
    account.loadingSince = this.now;
    account.waitedSince = this.now;
    account.waitedUntil = -1;
  }

  /** Nothing writes its blocks any more: it waits for its turn. */
  waited(account: Account): void {
    account.loadingSince = -1;
    account.waitedUntil = this.now;
  }

  anomaly(reason: string): void {
    this.anomalies.set(reason, (this.anomalies.get(reason) ?? 0) + 1);
  }
}
