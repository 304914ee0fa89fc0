import type { Account } from './account.js';
import { type EntryFacts, type EntryResult, type PlanFacts, type RowFacts, Violation } from './facts.js';
import type { Ledger } from './ledger.js';

/** Whether the output of an entry in flight must come (`due`), must not come (`void`), or may do either. */
type Fate = 'due' | 'void' | 'either';

export interface Entry {
  readonly facts: EntryFacts;
  readonly account: Account;
  fate: Fate;
  /** A forced reset has voided it. */
  byReset: boolean;
}

interface Step {
  readonly number: number;
  readonly entries: Entry[];
}

interface Expected {
  tokens: readonly number[];
  reason: RowFacts['reason'];
  continues?: boolean;
}

/** Checks plans and outputs: every plan is possible, every row is due, every token is the right one. */
export class StepAudit {
  readonly #ledger: Ledger;
  readonly #inFlight: Step[] = [];
  /** The right token of a request at a position. */
  readonly #tokenAt: (handle: number, position: number) => number;
  #lastStep = -1;
  lastPlan: PlanFacts | null = null;

  constructor(ledger: Ledger, tokenAt: (handle: number, position: number) => number) {
    this.#ledger = ledger;
    this.#tokenAt = tokenAt;
  }

  /** Entries in flight, of this step and later ones, each with its step. */
  entriesSince(step: number): { entry: Entry; step: number }[] {
    return this.#inFlight
      .filter(({ number }) => number >= step)
      .flatMap(({ entries, number }) => entries.map((entry) => ({ entry, step: number })));
  }

  get numInFlight(): number {
    return this.#inFlight.length;
  }

  planned(plan: PlanFacts): void {
    const { rules, accounts } = this.#ledger;
    const fail = (what: string) => new Violation('I18', `step ${plan.step}: ${what}`);
    if (plan.step !== this.#lastStep + 1) throw fail(`follows step ${this.#lastStep}`);
    this.#lastStep = plan.step;
    this.lastPlan = plan;
    this.#finishedTold(plan);
    const entries: Entry[] = [];
    const seen = new Set<number>();
    let total = 0;
    for (const facts of plan.entries) {
      const account = accounts.get(facts.handle);
      if (account === undefined) throw fail(`schedules unknown handle ${facts.handle}`);
      if (!account.isLive)
        throw new Violation('I1', `step ${plan.step} schedules ${account.name}, which has ended`);
      if (seen.has(facts.handle)) throw fail(`schedules ${account.name} twice`);
      seen.add(facts.handle);
      this.#checkEntry(facts, account, fail);
      total += facts.scheduled;
      account.expected += facts.samples;
      const late = this.#ledger.lateFor(account);
      if (late !== null)
        throw new Violation('I15', `step ${plan.step} schedules ${account.name}, which ${late}`);
      account.queuedSince = -1;
      if (facts.kind !== 'running') account.admittedStep = plan.step;
      entries.push({ facts, account, fate: 'due', byReset: false });
    }
    if (total !== plan.totalTokens) throw fail(`says ${plan.totalTokens} tokens, its entries say ${total}`);
    if (total > rules.maxNumBatchedTokens) throw fail(`${total} tokens`);
    const adapters = new Set(
      entries.map(({ account }) => account.asked.adapter).filter((name) => name !== ''),
    );
    if (rules.maxAdapters > 0 && adapters.size > rules.maxAdapters)
      throw fail(`runs adapters ${[...adapters]}`);
    if (entries.length > rules.maxNumSeqs)
      throw new Violation('I9', `step ${plan.step} has ${entries.length} entries`);
    if (total > 0) this.#inFlight.push({ number: plan.step, entries });
    if (this.#inFlight.length > rules.pipelineDepth) throw fail('more steps in flight than allowed');
  }

  #checkEntry(facts: EntryFacts, account: Account, fail: (what: string) => Violation): void {
    const { rules } = this.#ledger;
    const { scheduled, computed, drafts, samples } = facts;
    const { name } = account;
    const kind = account.container === 'running' ? 'running' : account.wasPreempted ? 'resumed' : 'new';
    const isEither = account.conversation !== null && account.wasEverPreempted && facts.kind !== 'running';
    if (facts.kind !== kind && !isEither)
      throw new Violation('I2', `${name} is scheduled as ${facts.kind}, expected ${kind}`);
    if (account.isNew && facts.cached !== computed)
      throw new Violation(
        'I14',
        `${name} goes on behind ${computed} tokens, its client hears of ${facts.cached}`,
      );
    account.isNew = false;
    if (scheduled < 1 || computed < 0) throw fail(`${name}: ${scheduled} tokens from ${computed} on`);
    const known = account.numTokens + account.expected;
    const after = computed + scheduled;
    if (after > known + drafts) throw fail(`${name}: computes up to ${after} of ${known} tokens`);
    const expected = after < known ? 0 : 1 + drafts;
    if (samples !== expected) throw fail(`${name}: may bring ${samples} tokens, expected ${expected}`);
    if (facts.numBlocks * rules.blockSize < after) {
      throw new Violation('I4', `${name} computes up to ${after} in ${facts.numBlocks} blocks`);
    }
    if (facts.kind !== 'running' && rules.version.preemptedOutputs === 'await') {
      const due = this.entriesSince(0).find(({ entry }) => entry.account === account && entry.fate === 'due');
      if (due !== undefined) throw new Violation('I18', `${name} comes in before step ${due.step} has told`);
    }
    if (account.loadingSince >= 0)
      throw new Violation('I8', `${name} is scheduled while its load is outstanding`);
  }

  #finishedTold(plan: PlanFacts): void {
    const { endedLate } = this.#ledger;
    const split = this.#ledger.finishedIds.length - endedLate;
    const finishedIds = this.#ledger.finishedIds.slice(0, split);
    const finishedHandles = this.#ledger.finishedHandles.slice(0, split);
    const expected = [...new Set(finishedIds)].sort().join();
    if ([...plan.finished].sort().join() !== expected) {
      throw new Violation(
        'I12',
        `step ${plan.step} names [${plan.finished}] as finished, not [${finishedIds}]`,
      );
    }
    const handles = [...finishedHandles].sort((a, b) => a - b).join();
    if ([...plan.finishedHandles].sort((a, b) => a - b).join() !== handles) {
      throw new Violation('I12', `step ${plan.step} names handles [${plan.finishedHandles}] as finished`);
    }
    this.#ledger.finishedIds = this.#ledger.finishedIds.slice(split);
    this.#ledger.finishedHandles = this.#ledger.finishedHandles.slice(split);
    this.#ledger.endedLate = 0;
  }

  /** The request's tokens in flight are void, or may be: they are computed again. */
  void(account: Account, fate: 'void' | 'either'): void {
    if (fate === 'void') account.expected = 0;
    else account.unsure = true;
    for (const { entries } of this.#inFlight) {
      for (const entry of entries) {
        if (entry.account === account && entry.fate !== 'void') entry.fate = fate;
      }
    }
  }

  /** A forced reset has voided what the request has in flight. */
  resets(account: Account): void {
    this.void(account, 'void');
    for (const { entry } of this.entriesSince(0)) if (entry.account === account) entry.byReset = true;
  }

  /** The request was preempted, and awaits what it has in flight; but what came after entries that a reset has voided is void like them. */
  awaits(account: Account): void {
    account.expected = 0;
    const own = this.entriesSince(0).filter(({ entry }) => entry.account === account);
    if (own.some(({ entry }) => entry.byReset)) this.resets(account);
  }

  /**
   * The oldest step was updated, or an empty one.
   * @param results null: the step failed as a whole
   */
  updated(number: number, results: readonly EntryResult[] | null, rows: readonly RowFacts[]): void {
    const step = this.#inFlight[0]?.number === number ? this.#inFlight.shift() : undefined;
    const expected = new Map<Account, Expected>();
    for (const account of this.#ledger.due) {
      expected.set(account, { tokens: [], reason: account.reason });
      account.notice = 'given';
    }
    this.#ledger.due.clear();
    if (step !== undefined) this.#expectRows(step, results, expected, rows);
    this.#expectFailures(expected, rows);
    this.#expectFailedGrammars(expected);
    this.#compare(number, expected, rows);
  }

  #expectRows(
    step: Step,
    results: readonly EntryResult[] | null,
    expected: Map<Account, Expected>,
    rows: readonly RowFacts[],
  ): void {
    const ledger = this.#ledger;
    const told = new Map(rows.map((row) => [row.handle, row]));
    const anyFailed = results === null || results.some(({ failed }) => failed);
    for (const [i, { account, fate }] of step.entries.entries()) {
      if (!account.isLive || !(results?.[i].failed ?? true) || fate === 'void') continue;
      const row = told.get(account.handle);
      if (fate === 'either' && row?.reason !== 'error') continue;
      ledger.end(account, 'error', 'given');
      expected.set(account, { tokens: [], reason: 'error' });
    }
    for (const [i, entry] of step.entries.entries()) {
      const { account } = entry;
      if (entry.fate === 'either') account.unsure = true;
      if (entry.fate !== 'void') account.expected = Math.max(0, account.expected - entry.facts.samples);
      if (!account.isLive || results === null || results[i].failed) continue;
      if (account.isSentBack) {
        account.isSentBack = false;
        this.void(account, 'void');
        continue;
      }
      const row = told.get(account.handle);
      if (account.mayFail !== null && row?.reason === 'error' && row.tokens.length === 0) continue;
      const may = entry.fate === 'either' || anyFailed || account.mayFail !== null;
      if (entry.fate === 'void' || (may && row === undefined) || results[i].tokens.length === 0) continue;
      this.#append(account, results[i], expected);
    }
  }

  /** Rows of requests whose load or connector failed. */
  #expectFailures(expected: Map<Account, Expected>, rows: readonly RowFacts[]): void {
    const ledger = this.#ledger;
    for (const row of rows) {
      const account = ledger.account(row.handle);
      if (row.reason !== 'error' || !account.isLive || account.mayFail === null) continue;
      ledger.end(account, 'error', 'given');
      expected.set(account, { tokens: [], reason: 'error' });
    }
  }

  #expectFailedGrammars(expected: Map<Account, Expected>): void {
    for (const account of [...this.#ledger.live.values()].filter(({ failsWithUpdate }) => failsWithUpdate)) {
      this.#ledger.end(account, 'error', 'given');
      expected.set(account, { tokens: [], reason: 'error' });
    }
  }

  /** Appends what was sampled, as far as nothing stops the request. */
  #append(account: Account, result: EntryResult, expected: Map<Account, Expected>): void {
    const tokens: number[] = [];
    let reason: 'stop' | 'length' | null = null;
    if (result.wrongAt >= 0) {
      throw new Violation(
        'I11',
        `${account.name} gets tokens computed from a wrong position ${result.wrongAt}`,
      );
    }
    for (const token of result.tokens) {
      const right = this.#tokenAt(account.handle, account.numTokens);
      if (token !== right) {
        throw new Violation(
          'I18',
          `${account.name} gets ${token} at ${account.numTokens}, expected ${right}`,
        );
      }
      account.numTokens++;
      tokens.push(token);
      reason = account.stopAfter(token, this.#ledger.rules.maxModelLen);
      if (reason !== null) break;
    }
    this.#checkShown(account, tokens);
    if (account.wasRefused) {
      expected.set(account, { tokens, reason: 'error' });
      this.#ledger.end(account, 'error', 'given');
      return;
    }
    const { conversation } = account;
    const goesOn = conversation !== null && !(conversation.hasEnded && conversation.queue.length === 0);
    if (reason !== null && goesOn) {
      expected.set(account, { tokens, reason, continues: true });
      this.#ledger.continues(account);
      this.void(account, 'void');
      return;
    }
    expected.set(account, { tokens, reason });
    if (reason !== null) this.#ledger.end(account, reason, 'given');
  }

  /** A grammar sees what its client is given, in order and once. */
  #checkShown(account: Account, tokens: readonly number[]): void {
    const { asked, shown, name } = account;
    account.shown = [];
    if (!asked.hasGrammar || shown.join() === tokens.join()) return;
    throw new Violation('I18', `${name} gets [${tokens}], its grammar was shown [${shown}]`);
  }

  #compare(number: number, expected: Map<Account, Expected>, rows: readonly RowFacts[]): void {
    const fail = (what: string) => new Violation('I14', `update of step ${number}: ${what}`);
    const seen = new Set<number>();
    for (const row of rows) {
      const account = this.#ledger.account(row.handle);
      if (seen.has(row.handle)) throw fail(`two rows for ${account.name}`);
      seen.add(row.handle);
      const right = expected.get(account);
      if (right === undefined)
        throw fail(`a row for ${account.name} (${row.tokens}, ${row.reason}) that is not due`);
      if ((right.continues ?? false) !== row.continues)
        throw fail(`the row of ${account.name} says that it ${row.continues ? 'goes on' : 'has ended'}`);
      if (right.reason !== row.reason || right.tokens.join() !== row.tokens.join()) {
        throw fail(
          `${account.name} gets [${row.tokens}] ${row.reason}, expected [${right.tokens}] ${right.reason}`,
        );
      }
    }
    for (const [account, { tokens, reason }] of expected) {
      if (!seen.has(account.handle)) throw fail(`no row for ${account.name} ([${tokens}] ${reason})`);
    }
  }
}
