import type { Account } from './account.js';
import {
  type InvalidFacts,
  type MatchFacts,
  type Reason,
  type ReportFacts,
  type TransferFacts,
  Violation,
} from './facts.js';
import { neededPlaces } from './group-rules.js';
import type { Ledger } from './ledger.js';
import type { LetGo } from './let-go.js';
import type { Turns } from './turns.js';

/** A load that a step itself waits for. */
interface SyncLoad {
  readonly account: Account;
  readonly child: number;
  /** The step that reads it. */
  readonly step: number;
  readonly blocks: readonly number[];
  /** The load's admission: after another one, the blocks may belong to another request. */
  readonly admission: number;
  /**
   * The turn in which the request had each block when the step was planned. The request may have
   * released a block since, and taken it again.
   */
  readonly turns: Map<number, number>;
  /** Whether the outputs of the step for this request certainly count. */
  isSure: boolean;
  /** Blocks that were reported as failed. They count when the step is updated. */
  readonly missing: Set<number>;
}

/** Checks the questions to the connector, its answers, and the reports of its workers. */
export class TransferAudit {
  readonly #ledger: Ledger;
  readonly #turns: Turns;
  readonly #letGo: LetGo;
  /** The last answer for each request that was asked about. */
  readonly #matches = new Map<Account, MatchFacts & { numLocal: number }>();
  /** Synchronous loads, by the step that reads them. */
  readonly #syncLoads = new Map<number, SyncLoad[]>();
  /** Steps for which the connector failed to make metadata. */
  readonly #lacking = new Set<number>();
  /** Requests whose load was begun in the plan that is being made. */
  #begun: Account[] = [];

  constructor(ledger: Ledger, turns: Turns, letGo: LetGo) {
    this.#ledger = ledger;
    this.#turns = turns;
    this.#letGo = letGo;
  }

  /** The connector was asked what it can load. @param answer null if it threw, or if its answer makes no sense */
  matched(handle: number, numLocal: number, answer: MatchFacts | null): void {
    const account = this.#live(handle, 'asked about');
    if (answer?.numTokens !== null) account.askingSince = -1;
    else account.asksLater(this.#ledger.numPlans, this.#ledger.now);
    if (answer === null) this.failed(handle);
    else this.#matches.set(account, { numLocal, ...answer });
    if (answer !== null && answer.numTokens === null) this.#ledger.patient.add(handle);
  }

  /** The connector threw for this request, or answered nonsense: it may end now. */
  failed(handle: number): void {
    const account = this.#ledger.account(handle);
    this.#ledger.anomaly('connector-failed');
    if (account.isLive) account.mayFail = 'its connector failed';
  }

  /** The connector threw at the report of a new request, which ends at the next step. */
  doomed(handle: number): void {
    this.#ledger.anomaly('connector-failed');
    this.#ledger.account(handle).isDoomed = true;
  }

  /** A request that stops must not, since it has nothing to send. */
  delivers(handle: number): void {
    const account = this.#live(handle, 'asked to deliver');
    // If it is admitted again behind the step whose token ends it, it has not recomputed all its
    // tokens.
    if (account.container === 'running' && account.admittedStep <= this.#ledger.updating)
      throw new Violation('I5', `${account.name} runs, and has what it is to send`);
    account.isSentBack = true;
  }

  /**
   * A request that stops in an update has all its KV except that of its last token. A request that
   * outgrew the pool never can.
   */
  delivered(handle: number, reason: Reason, numTokens: number, numHanded: number): void {
    const { name } = this.#ledger.account(handle);
    const stops = (reason === 'stop' || reason === 'length') && !this.#ledger.isScheduling;
    if (stops && numHanded < numTokens - 1)
      throw new Violation('I5', `${name} has ${numTokens} tokens, and ends with the KV of ${numHanded}`);
  }

  /** The connector threw where nothing depends on it. */
  threw(): void {
    this.#ledger.anomaly('connector-failed');
  }

  /** @param rows by group; a place that holds nothing is 0 */
  allocated(handle: number, rows: readonly (readonly number[])[], numExternal: number, step: number): void {
    const account = this.#live(handle, 'given blocks for');
    account.admissions++;
    const match = this.#matches.get(account);
    this.#matches.delete(account);
    if (match !== undefined) account.numFound = match.numLocal;
    else if (account.waitedSince < 0) account.numFound = Number.POSITIVE_INFINITY;
    if (numExternal === 0) return;
    if (match === undefined)
      throw new Violation('I8', `${account.name}: ${numExternal} tokens that nobody offered`);
    const { numTokens, numLocal, child } = match;
    if (numExternal > (numTokens ?? 0)) {
      throw new Violation('I8', `${account.name}: ${numExternal} external tokens, ${numTokens} were offered`);
    }
    this.#hasPlaces(account, rows, numLocal, numLocal + numExternal);
    account.loadFailed = false;
    account.loadStep = step;
    account.loadChild = child;
    account.loadBlocks = rows.flatMap((row, g) => {
      const { size } = this.#ledger.rules.groups[g];
      const places = row.slice(Math.floor(numLocal / size), Math.ceil((numLocal + numExternal) / size));
      return places.filter((block) => block !== 0);
    });
    account.admittedStep = step;
    if (!match.async) {
      account.loadFrom = { step, tokens: numLocal };
      const { admissions: admission, loadBlocks: blocks } = account;
      const load = {
        account,
        child,
        step,
        blocks,
        admission,
        turns: new Map<number, number>(),
        missing: new Set<number>(),
        isSure: true,
      };
      this.#syncLoads.set(step, [...(this.#syncLoads.get(step) ?? []), load]);
      return;
    }
    this.#ledger.waits(account);
    for (const rank of this.#ranks(child)) this.#ledger.use(account, `load:${child}:${rank}`);
    this.#begun.push(account);
  }

  /**
   * Every place that a request needs behind a load is there, or is loaded. No place is loaded that
   * it does not need (I22).
   */
  #hasPlaces(
    { name }: Account,
    rows: readonly (readonly number[])[],
    numLocal: number,
    numTokens: number,
  ): void {
    for (const [g, group] of this.#ledger.rules.groups.entries()) {
      const { first, end } = neededPlaces(group, numTokens);
      rows[g].forEach((block, place) => {
        const isNeeded = place >= first && place < end;
        if (isNeeded && block === 0)
          throw new Violation(
            'I22',
            `${name} loads ${numTokens} tokens, and has no place ${place} of group ${g}`,
          );
        if (!isNeeded && block !== 0 && place >= Math.floor(numLocal / group.size) && place < end)
          throw new Violation(
            'I22',
            `${name} loads into place ${place} of group ${g}, which it does not need`,
          );
      });
      if (rows[g].length < end)
        throw new Violation(
          'I22',
          `${name} loads ${numTokens} tokens into ${rows[g].length} places of group ${g}`,
        );
    }
  }

  /** A step was planned, and `Turns` has seen the state after it. */
  planned(step: number): void {
    for (const { account, blocks, turns } of this.#syncLoads.get(step) ?? [])
      for (const block of blocks) turns.set(block, this.#turns.turnOf(account.handle, block));
  }

  /** The metadata of a plan was made, or could not be: then its loads never begin, and count as failed. */
  metadata(step: number, threw: boolean): readonly number[] {
    const begun = this.#begun.filter(({ loadStep }) => loadStep === step);
    this.#begun = [];
    if (!threw) return [];
    this.#ledger.anomaly('connector-failed');
    this.#lacking.add(step);
    for (const account of begun) {
      for (const key of [...account.uses]) {
        if (key.startsWith('load:') && isPeers(key)) this.#ledger.unuse(account, key);
      }
      this.#loadLost(account);
      // The plan was made by then.
      account.endsLate = true;
    }
    return begun.map(({ handle }) => handle);
  }

  /** The connector gets the end of a request. */
  finishing(handle: number, reason: Reason): void {
    const account = this.#ledger.account(handle);
    account.toldReason = reason;
    this.#ledger.telling = account;
  }

  /** @param children that will report; null: none, the blocks are free; 'failed': it threw, or answered nonsense */
  finished(handle: number, reason: Reason, children: readonly number[] | null | 'failed'): void {
    const ledger = this.#ledger;
    const account = ledger.account(handle);
    ledger.telling = null;
    account.timesFinished++;
    if (account.timesFinished > 1)
      throw new Violation('I5', `${account.name} was finished twice to its connector`);
    if (account.reason !== null && account.reason !== reason) {
      throw new Violation(
        'I14',
        `${account.name} ended with ${account.reason}, its connector was told ${reason}`,
      );
    }
    account.toldReason = reason;
    ledger.untold.delete(account);
    this.#matches.delete(account);
    if (children === null) return;
    if (children === 'failed') ledger.anomaly('connector-failed');
    const all = children === 'failed' ? [...(ledger.rules.reporters ?? []).keys()] : children;
    for (const child of all) {
      for (const rank of this.#ranks(child)) {
        const key = `store:${child}:${rank}`;
        if (account.early.has(key)) account.ended.add(key);
        else ledger.use(account, key);
      }
    }
  }

  /**
   * The loads that failed: looked at before the tokens of the step.
   * @param step the one that is updated, -1 = none
   */
  failures(facts: TransferFacts, step: number): void {
    for (const report of facts.failed) this.#failedWhole(report);
    for (const invalid of facts.invalid) this.#invalid(invalid);
    const lacks = this.#lacking.delete(step);
    for (const load of this.#syncLoads.get(step) ?? []) {
      const { account, blocks, missing } = load;
      if (lacks) for (const block of blocks) missing.add(block);
      if (missing.size === 0) continue;
      // The connector is asked again, or no more.
      account.askingSince = -1;
      for (const block of blocks) this.#shared(block);
      if (account.admissions === load.admission) this.#markFailed(account, load.isSure);
      else if (this.#foundAgain(load)) this.#mayFail(account);
    }
  }

  /**
   * The transfers that ended: looked at after the tokens of the step, received before sent, each in
   * the order of the report.
   */
  completions(facts: TransferFacts): void {
    for (const report of facts.received) this.#received(report);
    for (const { handle, child, rank } of facts.sent) this.#sent(handle, child, rank);
  }

  /** Whether the step reads loads that are known to have failed, or never to have begun. */
  lacks(step: number): boolean {
    const loads = this.#syncLoads.get(step) ?? [];
    return this.#lacking.has(step) || loads.some(({ missing }) => missing.size > 0);
  }

  /** All steps in flight may be void, with the loads that they waited for. */
  voided(): void {
    for (const load of this.#readersOf(undefined)) load.isSure = false;
  }

  /** A step was executed, and with it the loads that it waited for. */
  settled(step: number): void {
    this.#syncLoads.delete(step);
  }

  #received({ handle, child, rank, step }: ReportFacts): void {
    const ledger = this.#ledger;
    const account = ledger.known(handle);
    if (account === undefined) ledger.anomaly('stale-handle');
    else if (step !== undefined && step !== account.loadStep) ledger.anomaly('duplicate-completion');
    else if (!ledger.unuse(account, `load:${child}:${rank}`)) ledger.anomaly('duplicate-completion');
    else if (!account.hasLoad) this.#loadEnded(account);
  }

  #sent(handle: number, child: number, rank: number): void {
    const ledger = this.#ledger;
    const account = ledger.known(handle);
    const key = `store:${child}:${rank}`;
    if (account === undefined) ledger.anomaly('stale-handle');
    else if (ledger.unuse(account, key)) return;
    else {
      ledger.anomaly('live-completion');
      if (account.isLive && this.#isRank(child, rank)) account.early.add(key);
    }
  }

  /** If a report may be about several loads of a request, the oldest is meant. */
  #failedWhole({ handle, child, rank, step, declined }: ReportFacts): void {
    // A load that a step in flight waits for can fail also when its request has ended: others may
    // have found its blocks.
    const isOwnRank = this.#isRank(child, rank);
    const isNamed = (loadStep: number): boolean => step === undefined || step === loadStep;
    const [reader] = this.#readersOf(handle)
      .filter((load) => isOwnRank && load.child === child && isNamed(load.step))
      .sort((a, b) => a.step - b.step);
    if (reader !== undefined) {
      for (const block of reader.blocks) reader.missing.add(block);
      return;
    }
    const account = this.#ledger.known(handle);
    if (account === undefined) {
      this.#ledger.anomaly('stale-handle');
      return;
    }
    const isWaiting = account.waitsForLoad && account.loadChild === child;
    if (isWaiting && isOwnRank && isNamed(account.loadStep)) this.#markFailed(account, true, declined);
    else if (account.waitsForLoad || !account.uses.has(`load:${child}:${rank}`))
      this.#ledger.anomaly('wrong-owner');
  }

  /** Loads that steps in flight wait for; of one request, if that is given. */
  #readersOf(handle: number | undefined): SyncLoad[] {
    const all = [...this.#syncLoads.values()].flat();
    return handle === undefined ? all : all.filter(({ account }) => account.handle === handle);
  }

  #invalid({ block, handle, child }: InvalidFacts): void {
    const { live, held } = this.#ledger;
    let isKnown = false;
    let isUnclear = false;
    let isForeign = false;
    const holds = ({ handle: whose }: Account, blocks: readonly number[], turn?: number): boolean => {
      if (!blocks.includes(block)) return false;
      const present = this.#turns.turnOf(whose, block);
      if (present > 0 && (turn === undefined || turn === present)) isKnown = true;
      else isUnclear = true;
      return true;
    };
    for (const account of [...live.values(), ...held]) {
      if ((handle !== undefined && account.handle !== handle) || !isLoaded(account)) continue;
      const { blocks: own, kept } = this.#turns.of(account.handle);
      const blocks = account.waitsForLoad ? account.loadBlocks : [...own, ...kept.keys()];
      if (account.loadChild !== child) isForeign ||= account.waitsForLoad && blocks.includes(block);
      // A request that waits no more went on without that load, and may hold the same blocks.
      else if (holds(account, blocks)) this.#markFailed(account, account.waitsForLoad);
    }
    for (const load of this.#readersOf(handle)) {
      const { account, blocks, admission, turns } = load;
      const turn = account.admissions === admission ? turns.get(block) : -1;
      if (load.child !== child) isForeign ||= blocks.includes(block);
      else if (holds(account, blocks, turn)) load.missing.add(block);
    }
    if (isKnown || isUnclear) this.#shared(block);
    if (isKnown) return;
    if (isForeign) {
      this.#ledger.anomaly('wrong-owner');
      // Blocks that a step in flight or a preemption released are still known to the scheduler if
      // no request took them again.
      if (isUnclear) this.#ledger.unclearOwners++;
    } else if (isUnclear) this.#ledger.unclear++;
    else this.#ledger.anomaly('invalid-block');
  }

  /**
   * Blocks that the device has lost: a request that holds one, or a block computed from one, starts
   * again or ends.
   */
  lost(blocks: readonly number[]): void {
    for (const block of blocks) this.#shared(block);
  }

  /** Requests that share the block may have to wait or to start again. */
  #shared(block: number): void {
    for (const account of this.#ledger.live.values()) {
      const { blocks } = this.#turns.of(account.handle);
      if (!blocks.includes(block)) continue;
      if (!account.loadBlocks.includes(block)) account.sharesBad = true;
    }
  }

  /**
   * @param isSure whether the load that failed is one that still matters to it
   * @param isDeclined it failed before anything was written
   */
  #markFailed(account: Account, isSure = true, isDeclined = false): void {
    const matters = account.waitsForLoad || account.container === 'running';
    if (isSure && matters) {
      account.loadDeclined = isDeclined && (account.loadDeclined || !account.loadFailed);
      account.loadFailed = true;
    }
    if (!isDeclined) this.#mayFail(account);
  }

  #mayFail(account: Account): void {
    if (account.isLive && this.#ledger.rules.loadFailurePolicy === 'fail')
      account.mayFail = 'its load failed';
  }

  /**
   * Whether a request that was admitted again since found a block in the cache that its load left
   * wrong. The request may have released the block again.
   */
  #foundAgain({ account, missing }: SyncLoad): boolean {
    const { groups } = this.#ledger.rules;
    const { handle, admittedStep, numFound } = account;
    const isBad = (block: number, g: number, place: number): boolean =>
      place * groups[g].size < numFound && missing.has(block);
    return (
      this.#turns.of(handle).rows.some((row, g) => row.some((block, place) => isBad(block, g, place))) ||
      this.#letGo.placesOf(handle, admittedStep).some(({ block, group, place }) => isBad(block, group, place))
    );
  }

  #loadEnded(account: Account): void {
    if (!account.waitsForLoad) return;
    this.#ledger.waited(account);
    if (account.loadFailed) this.#markFailed(account, true, account.loadDeclined);
  }

  /** The connector does nothing for a load any more, and its earlier work does not count. */
  #loadLost(account: Account): void {
    this.#markFailed(account);
    if (!account.hasLoad) this.#ledger.waited(account);
  }

  /** The uses that a fence ends: all earlier ones by the connector, or by a child of it. */
  fencing(child: number | undefined): [Account, string][] {
    const { live, held } = this.#ledger;
    const fits = (key: string): boolean =>
      isPeers(key) && (child === undefined || key.split(':')[1] === `${child}`);
    return [...live.values(), ...held].flatMap((account) =>
      [...account.uses].filter(fits).map((key): [Account, string] => [account, key]),
    );
  }

  fenced(uses: readonly [Account, string][]): void {
    for (const [account, key] of uses) {
      this.#ledger.unuse(account, key);
      if (key.startsWith('load:') && account.waitsForLoad) this.#loadLost(account);
    }
  }

  /** Loads that this step waited for and of which something did not come. */
  failedLoads(step: number): readonly { account: Account; missing: ReadonlySet<number> }[] {
    return (this.#syncLoads.get(step) ?? []).filter(({ missing }) => missing.size > 0);
  }

  /** The connector must have got the end of each request in the same call. */
  callEnded(): void {
    for (const { name } of this.#ledger.untold)
      throw new Violation('I5', `${name} ended without requestFinished`);
  }

  #live(handle: number, what: string): Account {
    const account = this.#ledger.account(handle);
    if (!account.isLive)
      throw new Violation('I5', `the connector was ${what} ${account.name}, which has ended`);
    return account;
  }

  #ranks(child: number): readonly number[] {
    return this.#ledger.rules.reporters?.[child] ?? [];
  }

  #isRank(child: number, rank: number): boolean {
    return this.#ranks(child).includes(rank);
  }
}

/**
 * Whether its blocks are the blocks of a load that it waits for, was waiting for when it ended, or
 * went on without.
 */
function isLoaded({ waitsForLoad, uses }: Account): boolean {
  return waitsForLoad || [...uses].some((key) => key.startsWith('load:') && isPeers(key));
}

/** Whether a use is one by the connector. */
function isPeers(key: string): boolean {
  return /^(load|store):\d+:\d+$/.test(key);
}
