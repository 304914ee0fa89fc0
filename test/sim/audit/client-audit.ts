import type { Account } from './account.js';
import { type Asked, Violation } from './facts.js';
import { mostTokens } from './group-rules.js';
import type { Ledger } from './ledger.js';

/** The calls of clients that are answered at once: adds and aborts. */
export class ClientAudit {
  readonly #ledger: Ledger;
  /** Aborts from inside a callback. */
  readonly #queued = new Set<Account>();
  /** Requests whose aborts the present call must carry out. */
  #due: Account[] = [];
  #mayHaveQueued = false;
  /** The present call carries out queued aborts. */
  #drains = false;
  /** Requests whose sending the connector must be asked to stop in the present call. */
  #cancels = new Set<Account>();
  /**
   * Requests whose sending it must be asked to stop by the next call that carries out queued
   * aborts.
   */
  #queuedCancels = new Set<Account>();
  /** Requests whose sending it may be asked to stop. */
  #cancellable = new Set<Account>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** @param outcome the handle, or the code of the refusal */
  added(asked: Asked, outcome: number | string): void {
    const { rules, live } = this.#ledger;
    const length = asked.prompt.length;
    let refusal: string | null = null;
    if (live.has(asked.id)) refusal = 'ERR_BLOCKSTEP_DUPLICATE_ID';
    else if (length >= rules.maxModelLen || length > mostTokens(rules)) {
      refusal = 'ERR_BLOCKSTEP_UNFIT';
    }
    if (typeof outcome === 'string') {
      if (outcome !== refusal)
        throw new Violation('I20', `${asked.id} was refused with ${outcome}, not ${refusal}`);
      return;
    }
    if (refusal !== null) throw new Violation('I20', `${asked.id} was let in, expected ${refusal}`);
    this.#ledger.open(outcome, asked);
  }

  /** Whom an abort names, before it is carried out. */
  aborting(keys: readonly (string | number)[]): ReadonlySet<Account> {
    return this.#targets(keys, this.#cancels);
  }

  /** The connector is asked to stop sending. */
  cancelling(handle: number): void {
    const account = this.#ledger.account(handle);
    const { name } = account;
    if (account.isCancelled)
      throw new Violation('I5', `the connector was asked twice to stop sending ${name}`);
    account.isCancelled = true;
    if (!this.#cancellable.has(account) && !this.#isLate(account))
      throw new Violation('I6', `the connector was asked to stop sending ${name}, which nobody aborted`);
  }

  aborted(targets: ReadonlySet<Account>, ended: readonly string[]): void {
    const expected: string[] = [];
    for (const account of targets) {
      expected.push(account.asked.id);
      if (this.#queued.has(account)) this.#queuedCancels.add(account);
      this.#ledger.end(account, 'abort', 'none');
    }
    if (expected.join() !== ended.join())
      throw new Violation('I14', `an abort ended [${ended}], not [${expected}]`);
    this.#checkCancelled();
  }

  #checkCancelled(): void {
    const hasConnector = this.#ledger.rules.reporters !== null;
    for (const { name, isCancelled } of this.#cancels) {
      if (!isCancelled && hasConnector)
        throw new Violation('I6', `the connector was not asked to stop sending ${name}`);
    }
    this.#cancels.clear();
  }

  /** From inside a callback: resolved now, carried out at the next step. */
  abortQueued(keys: readonly (string | number)[]): void {
    this.#mayHaveQueued = true;
    for (const account of this.#targets(keys, this.#queuedCancels)) {
      this.#queued.add(account);
      // Another abort may have ended it by then, and its connector may have kept the blocks: then this one stops that.
      this.#cancellable.add(account);
    }
  }

  /** Whether there may be aborts that the next step carries out. */
  get mayHaveQueued(): boolean {
    return this.#mayHaveQueued;
  }

  /** A call begins. @param drains it carries out what was queued */
  began(drains: boolean): void {
    this.#drains = drains;
    if (drains) this.#drain();
  }

  #drain(): void {
    this.#due = [...this.#queued];
    this.#mayHaveQueued = false;
    const { cancels } = this.#ledger.rules;
    for (const account of this.#queuedCancels) {
      if (cancels && this.#isSent(account) && !account.isCancelled) this.#cancels.add(account);
    }
    this.#cancellable = new Set([...this.#queued, ...this.#queuedCancels]);
    this.#queuedCancels.clear();
  }

  /** Aborts that came from the callbacks of others which were just carried out went with them. */
  drained(): void {
    for (const account of this.#queued) {
      if (account.toldReason === null && account.isLive) continue;
      this.#queued.delete(account);
      // The request ended otherwise before this abort was carried out, as by the end of its
      // session. The abort then stops its sending.
      const isDone = account.toldReason === 'abort' && this.#drains;
      if (!isDone) this.#queuedCancels.add(account);
      if (account.isLive && account.toldReason === 'abort') this.#ledger.end(account, 'abort', 'none');
    }
    for (const { toldReason, isLive, name } of this.#due) {
      if (toldReason === null && isLive)
        throw new Violation('I14', `the abort of ${name} was not carried out`);
    }
    this.#due = [];
    this.#checkCancelled();
  }

  /** @param cancels takes the requests whose sending is to be stopped, where they are known */
  #targets(keys: readonly (string | number)[], cancels: Set<Account>): Set<Account> {
    const ledger = this.#ledger;
    const targets = new Set<Account>();
    for (const key of keys) {
      if (this.#stopsSending(key, cancels)) continue;
      const named = typeof key === 'string' ? ledger.live.get(key) : ledger.accounts.get(key);
      // In a callback, a request may have ended already whose end was not reported here yet.
      if (named?.isLive && named.toldReason === null) targets.add(named);
      else if (typeof key === 'string') ledger.anomaly('abort-unknown');
      else if (named !== undefined && (named === ledger.telling || named.uses.size > 0)) {
        ledger.anomaly('abort-finished');
      } else ledger.anomaly('stale-handle');
    }
    return targets;
  }

  /** Whether an abort is about a finished request that its connector still reads, and is asked to stop: the newest of its id. */
  #stopsSending(key: string | number, cancels: Set<Account>): boolean {
    const { rules, live, held } = this.#ledger;
    if (!rules.cancels) return false;
    const named = typeof key === 'string' ? live.get(key) : undefined;
    if (named !== undefined && named.toldReason === null) return false;
    const sent = [...held, ...live.values()]
      .filter((account) => (account.asked.id === key || account.handle === key) && this.#isSent(account))
      .sort((a, b) => b.nth - a.nth);
    if (sent.length === 0) return false;
    const [newest] = sent;
    if (!this.#isLate(newest)) {
      this.#cancellable.add(newest);
      if (!newest.isCancelled) cancels.add(newest);
      return true;
    }
    // In this very call it is given up to wait for it, before or after this.
    this.#ledger.unsureAborts++;
    for (const account of sent) this.#cancellable.add(account);
    return true;
  }

  /** Whether it has finished, and making this plan gives it up to wait for its blocks. */
  #isLate({ endedAt, isLive }: Account): boolean {
    const { rules, isScheduling, now } = this.#ledger;
    return isScheduling && !isLive && rules.reclaimDeadline > 0 && now - endedAt >= rules.reclaimDeadline;
  }

  /** Whether it has finished and something uses its blocks, for which somebody waits. */
  #isSent(account: Account): boolean {
    const { quarantined, telling } = this.#ledger;
    const { isLive, toldReason, uses, handle } = account;
    if (account === telling || (isLive && toldReason === null) || uses.size === 0) return false;
    return isLive || !quarantined.has(handle);
  }

  /** A use of blocks by somebody who moves them without a connector. */
  held(handle: number, kind: string, owner: string, answer: boolean): void {
    const account = this.#ledger.known(handle);
    if (account === undefined) this.#ledger.anomaly('stale-handle');
    const taken = account !== undefined && this.#ledger.use(account, `${kind}:${owner}`);
    if (account !== undefined && !taken) this.#ledger.anomaly('duplicate-hold');
    if (taken !== answer) throw new Violation('I8', `hold of ${kind}:${owner} answered ${answer}`);
    const isAgain = account?.waitsForLoad === true && account.loadingSince < 0;
    if (taken && kind === 'load' && isAgain) this.#ledger.waits(account);
  }

  completed(handle: number, kind: string, owner: string, answer: boolean): void {
    const account = this.#ledger.known(handle);
    const key = `${kind}:${owner}`;
    if (account === undefined) this.#ledger.anomaly('stale-handle');
    else if (!account.uses.has(key)) {
      this.#ledger.anomaly(account.ended.has(key) ? 'duplicate-completion' : 'unknown-completion');
    }
    const taken = account !== undefined && this.#ledger.unuse(account, key);
    if (taken !== answer) throw new Violation('I8', `completion of ${key} answered ${answer}`);
    const isOver = account?.waitsForLoad === true && !account.hasLoad;
    if (taken && kind === 'load' && isOver) this.#ledger.waited(account);
  }
}
