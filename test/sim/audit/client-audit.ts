import type { Account } from './account.js';
import { type Asked, Violation } from './facts.js';
import type { Ledger } from './ledger.js';

/** What clients ask for and are answered at once: who is let in, who ends by an abort. */
export class ClientAudit {
  readonly #ledger: Ledger;
  /** Aborts from inside a callback. */
  readonly #queued = new Set<Account>();
  /** Those that the present call must carry out. */
  #due: Account[] = [];

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** @param outcome the handle, or the code of the refusal */
  added(asked: Asked, outcome: number | string): void {
    const { rules, live } = this.#ledger;
    const length = asked.prompt.length;
    let refusal: string | null = null;
    if (live.has(asked.id)) refusal = 'ERR_BLOCKSTEP_DUPLICATE_ID';
    else if (length >= rules.maxModelLen || length > (rules.numBlocks - 1) * rules.blockSize) {
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
    return this.#targets(keys);
  }

  aborted(targets: ReadonlySet<Account>, ended: readonly string[]): void {
    const expected: string[] = [];
    for (const account of targets) {
      expected.push(account.asked.id);
      this.#ledger.end(account, 'abort', 'none');
    }
    if (expected.join() !== ended.join())
      throw new Violation('I14', `an abort ended [${ended}], not [${expected}]`);
  }

  /** From inside a callback: resolved now, carried out at the next step. */
  abortQueued(keys: readonly (string | number)[]): void {
    for (const account of this.#targets(keys)) this.#queued.add(account);
  }

  get hasQueued(): boolean {
    return this.#queued.size > 0;
  }

  /** A call begins that carries out what was queued. */
  drain(): void {
    this.#due = [...this.#queued];
  }

  /** Aborts that came from the callbacks of others which were just carried out went with them. */
  drained(): void {
    for (const account of this.#queued) {
      if (account.toldReason === null && account.isLive) continue;
      this.#queued.delete(account);
      if (account.isLive && account.toldReason === 'abort') this.#ledger.end(account, 'abort', 'none');
    }
    for (const { toldReason, isLive, name } of this.#due) {
      if (toldReason === null && isLive)
        throw new Violation('I14', `the abort of ${name} was not carried out`);
    }
    this.#due = [];
  }

  #targets(keys: readonly (string | number)[]): Set<Account> {
    const ledger = this.#ledger;
    const targets = new Set<Account>();
    for (const key of keys) {
      if (this.#cancels(key)) continue;
      const named = typeof key === 'string' ? ledger.live.get(key) : ledger.accounts.get(key);
      // In a callback a request may have ended already whose end was not told here yet.
      if (named?.isLive && named.toldReason === null) targets.add(named);
      else if (typeof key === 'string') ledger.anomaly('abort-unknown');
      else if (named !== undefined && (named === ledger.telling || named.uses.size > 0)) {
        ledger.anomaly('abort-finished');
      } else ledger.anomaly('stale-handle');
    }
    return targets;
  }

  /** Whether an abort is about a finished request that its connector still reads, and is asked to stop. */
  #cancels(key: string | number): boolean {
    const { rules, live, held, quarantined, telling, isScheduling, now } = this.#ledger;
    if (!rules.cancels) return false;
    const named = typeof key === 'string' ? live.get(key) : undefined;
    if (named !== undefined && named.toldReason === null) return false;
    for (const account of [...held, ...live.values()]) {
      const { asked, handle, toldReason, isLive, uses, endedAt } = account;
      if (account === telling || (isLive && toldReason === null) || uses.size === 0) continue;
      const isLate = isScheduling && rules.reclaimDeadline > 0 && now - endedAt >= rules.reclaimDeadline;
      if ((!isLive && quarantined.has(handle)) || (asked.id !== key && handle !== key)) continue;
      // In this very call it is given up to wait for it, before or after this.
      if (isLate) this.#ledger.unsureAborts++;
      return true;
    }
    return false;
  }

  /** A use of blocks by somebody who moves them without a connector. */
  held(handle: number, kind: string, owner: string, answer: boolean): void {
    const account = this.#ledger.known(handle);
    if (account === undefined) this.#ledger.anomaly('stale-handle');
    const taken = account !== undefined && this.#ledger.use(account, `${kind}:${owner}`);
    if (account !== undefined && !taken) this.#ledger.anomaly('duplicate-hold');
    if (taken !== answer) throw new Violation('I8', `hold of ${kind}:${owner} answered ${answer}`);
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
  }
}
