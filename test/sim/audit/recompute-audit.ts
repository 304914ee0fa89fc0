import type { Account } from './account.js';
import { type EntryResult, type Sight, Violation } from './facts.js';
import type { Ledger } from './ledger.js';
import type { LetGo } from './let-go.js';
import type { StepAudit } from './step-audit.js';
import type { TransferAudit } from './transfer-audit.js';
import type { Turns } from './turns.js';

/** Requests that may be computed again because of failures in one update. */
interface Allowed {
  step: number;
  /** Blocks that a row or a load left wrong, and those behind them. */
  bad: ReadonlySet<number>;
  /**
   * A request that may have shared them has left, so that every request that was admitted since may
   * be computed again.
   */
  forgets: boolean;
}

/**
 * Requests that go back from running to waiting when a step is updated: they must share a block
 * that failed in it.
 */
export class RecomputeAudit {
  readonly #ledger: Ledger;
  readonly #steps: StepAudit;
  readonly #transfers: TransferAudit;
  readonly #turns: Turns;
  readonly #letGo: LetGo;
  #allowed: Allowed | null = null;
  /**
   * Requests that ran when the update began, and their blocks, with those that steps in flight have
   * released.
   */
  readonly #ran = new Map<Account, readonly number[]>();

  constructor(ledger: Ledger, steps: StepAudit, transfers: TransferAudit, turns: Turns, letGo: LetGo) {
    this.#ledger = ledger;
    this.#steps = steps;
    this.#transfers = transfers;
    this.#turns = turns;
    this.#letGo = letGo;
  }

  /** A step was planned. Called before `Turns` sees the state after it. */
  planned(step: number, sight: Sight): void {
    this.#letGo.planned(step, sight);
  }

  /**
   * A step is updated, and the results of its rows and loads are known. Called before anything that
   * follows from it.
   * @param results null: the step failed as a whole
   * @param lost blocks whose KV the device has lost
   */
  began(step: number, results: readonly EntryResult[] | null, lost: readonly number[]): void {
    this.#letGo.updated(step);
    for (const account of this.#ledger.live.values()) {
      if (account.container === 'running')
        this.#ran.set(account, [...this.#turns.of(account.handle).blocks, ...this.#goneOf(account)]);
    }
    const bad = new Set(lost);
    const own = this.#steps.entriesSince(step).filter((entry) => entry.step === step);
    const rows = own.filter((_, i) => results?.[i].failed ?? true).map(({ entry }) => entry);
    let forgets = this.#steps
      .entriesSince(step)
      .some(({ entry, step: of }) => !holdsSince(entry.account, of));
    for (const { account, facts } of rows) {
      const { loadFrom } = account;
      const from = loadFrom?.step === step ? loadFrom.tokens : facts.computed;
      this.#addFrom(bad, account, from);
      for (const block of this.#goneOf(account)) bad.add(block);
    }
    const loads = this.#transfers.failedLoads(step);
    for (const { account, missing } of loads) {
      const first = this.#firstIn(account, missing);
      if (first < Number.POSITIVE_INFINITY) this.#addFrom(bad, account, first);
      for (const block of this.#goneOf(account)) bad.add(block);
    }
    if ([...rows, ...loads].some(({ account }) => account.reason !== null)) forgets = true;
    // A request that shares a row's blocks is computed again, and has left when the loads are
    // looked at.
    if (rows.length > 0 && loads.length > 0) forgets = true;
    // And a request that is computed again for either reason has left when the lost blocks are
    // looked at.
    if (lost.length > 0 && rows.length + loads.length > 0) forgets = true;
    this.#addBuilt(bad);
    if (lost.length > 0) this.#mayFail(bad);
    this.#allowed = { step, bad, forgets };
  }

  /**
   * Under the policy `fail`, a request ends if it holds a lost block, or a block that was computed
   * from one.
   */
  #mayFail(bad: ReadonlySet<number>): void {
    if (this.#ledger.rules.loadFailurePolicy !== 'fail') return;
    for (const account of this.#ledger.live.values())
      if (this.#firstIn(account, bad) < Number.POSITIVE_INFINITY) account.mayFail = 'its blocks were lost';
  }

  /** Blocks that have KV of the tokens from `from` on. */
  #addFrom(bad: Set<number>, { handle }: Account, from: number): void {
    this.#turns.of(handle).rows.forEach((row, g) => {
      const first = Math.floor(from / this.#ledger.rules.groups[g].size);
      for (const block of row.slice(first)) if (block !== 0) bad.add(block);
    });
  }

  /**
   * Adds the blocks that were computed from them. A request that hit a block of a window need not
   * hold the blocks from which that one was computed.
   */
  #addBuilt(bad: Set<number>): void {
    const { groups } = this.#ledger.rules;
    if (groups.every(({ type }) => type === 'full' || type === 'sink')) return;
    for (let before = -1; before !== bad.size; ) {
      before = bad.size;
      for (const account of this.#ledger.live.values()) {
        const first = this.#firstIn(account, bad);
        if (first < Number.POSITIVE_INFINITY) this.#addFrom(bad, account, first);
        // A later block of the row may have been let go too, and be shared since it was found.
        const gone = this.#goneOf(account);
        if (gone.some((block) => bad.has(block))) for (const block of gone) bad.add(block);
      }
    }
  }

  /** The first token with KV in one of these blocks. */
  #firstIn(account: Account, blocks: ReadonlySet<number>): number {
    if (this.#goneOf(account).some((block) => blocks.has(block))) return 0;
    const firsts = this.#turns.of(account.handle).rows.map((row, g) => {
      const first = row.findIndex((block) => blocks.has(block));
      return first < 0 ? Number.POSITIVE_INFINITY : first * this.#ledger.rules.groups[g].size;
    });
    return Math.min(Number.POSITIVE_INFINITY, ...firsts);
  }

  /** Blocks of its rows that steps in flight have released since it was admitted. */
  #goneOf({ handle, admittedStep }: Account): readonly number[] {
    return this.#letGo.of(handle, admittedStep);
  }

  /** The update is over. */
  saw({ requests }: Sight): void {
    const allowed = this.#allowed;
    this.#allowed = null;
    if (allowed === null) return;
    const { step, bad } = allowed;
    const aborted = [...this.#ran.keys()].some(({ reason }) => reason === 'abort');
    for (const { handle, container } of requests) {
      const account = this.#ledger.account(handle);
      const had = this.#ran.get(account);
      if (
        had === undefined ||
        account.hasContinued ||
        container === 'running' ||
        had.some((block) => bad.has(block))
      )
        continue;
      if ((allowed.forgets || aborted) && account.admittedStep >= step) continue;
      throw new Violation(
        'I11',
        `${account.name} starts again in the update of step ${step}, and shares nothing bad`,
      );
    }
    this.#ran.clear();
  }
}

/**
 * Whether a request still has the blocks that it had in that step. A request that ended with an
 * error has left none behind.
 */
function holdsSince(account: Account, step: number): boolean {
  const { reason, admittedStep, container, hasBlocks } = account;
  if (reason !== null) return false;
  return admittedStep <= step && (container === 'running' || hasBlocks);
}
