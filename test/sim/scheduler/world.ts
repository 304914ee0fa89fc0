import { PlanViews } from '../../../src/engine/executor/plan-view.js';
import { carryRules } from '../../../src/scheduler/options/single-rules.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { OutstandingKind } from '../../../src/scheduler/request/outstanding.js';
import type { RequestInput } from '../../../src/scheduler/request/request.js';
import { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { Account } from '../audit/account.js';
import { Auditor } from '../audit/auditor.js';
import type { ChunkFacts } from '../audit/conversation.js';
import { type Asked, type EntryResult, type TransferFacts, Violation } from '../audit/facts.js';
import type { Held } from '../audit/turns.js';
import { inputOf } from '../shared/asked.js';
import { Journal } from '../shared/journal.js';
import { Observer } from '../shared/observer.js';
import { keyOf, Text } from '../shared/text.js';
import { threw } from '../shared/threw.js';
import { Borrowing, type BorrowingOptions } from './borrowing.js';
import { cachedBlocks } from './cached-blocks.js';
import { type Decisions, SimConnector } from './connector.js';
import { type Dispatched, draft, Executor } from './executor.js';
import { Fabric, type FabricHooks } from './fabric.js';
import type { SimGrammar } from './grammar.js';
import { IndexReader } from './index-reader.js';
import { type Lost, Memory } from './memory.js';
import type { ConnectorShape, Setup } from './setup.js';
import { takenIn } from './targets.js';
import { describePlan, describeRow, describeTransfers, rulesOf } from './tell.js';
import { type Timing, Transfers } from './transfers.js';

export interface WorldOptions {
  scheduler: Setup['scheduler'];
  connector: ConnectorShape | null;
  decisions?: Decisions;
  hooks?: Partial<Pick<FabricHooks, 'delay' | 'isNamed' | 'isStamped'>>;
  borrower?: BorrowingOptions | null;
  tells?: boolean;
}

/** The blocks that the device loses, among the blocks that a step reads or writes. */
type Loses = (holdings: readonly Held[]) => readonly Lost[];

const NO_TRANSFERS: TransferFacts = { received: [], sent: [], failed: [], invalid: [], lost: [] };

/**
 * A scheduler with a simulated device, fabric and clock. An auditor sees every input, answer and
 * call. A fault throws a `Violation`. Nothing here is random: the driver of the world decides.
 */
export class World {
  readonly scheduler: Scheduler;
  readonly auditor: Auditor;
  readonly executor: Executor;
  readonly fabric: Fabric;
  readonly connector: SimConnector | null;
  readonly memory: Memory;
  readonly borrowing: Borrowing | null;
  readonly index: IndexReader | null;
  readonly texts = new Map<number, Text>();
  /** Plans that were dispatched, by step. */
  readonly plans = new Map<number, Plan>();
  now = 0;
  timing: Timing = () => ({ startAt: this.now, endAt: this.now, bad: new Set(), fails: false });
  readonly #observer: Observer;
  readonly #journal = new Journal(60);
  readonly #lastEmpty: { plan: Plan | null } = { plan: null };
  readonly #transfers: Transfers;
  /** Grammars of unfinished requests, by handle. */
  readonly #grammars = new Map<number, SimGrammar>();
  #wrong: string | null = null;
  #isFencing = false;
  readonly #views = new PlanViews();

  constructor({ scheduler, connector, decisions, hooks, borrower = null, tells = true }: WorldOptions) {
    this.connector =
      connector === null || decisions === undefined
        ? null
        : new SimConnector(connector.protection, connector.reporters, decisions);
    const extra = this.connector === null ? {} : { connector: this.connector };
    const wrong = (what: string) => {
      this.#wrong ??= what;
    };
    this.index = tells ? new IndexReader(wrong) : null;
    this.borrowing = borrower === null ? null : new Borrowing(this, borrower);
    const told = { kvEvents: this.index?.sink ?? null, now: () => this.now };
    const lends = this.borrowing === null ? {} : { borrower: this.borrowing.adapter };
    this.scheduler = new Scheduler({ ...carryRules(scheduler), ...extra, ...lends, ...told });
    const numRanks = connector === null ? 1 : Math.max(...connector.reporters.flat()) + 1;
    const rules = rulesOf(this.scheduler, connector);
    this.memory = new Memory(rules.numBlocks, rules.groups, numRanks, (block, turn, over) => {
      const { turns } = this.auditor.sights;
      return turns.isHeld(block, turn) || turns.isShared(over, turn);
    });
    this.executor = new Executor(this.memory, wrong);
    this.auditor = new Auditor(rules, (handle, position) => this.text(handle).token(position));
    if (this.connector !== null) {
      this.connector.audit = this.auditor.transfers;
      this.connector.note = (event) => this.note(event);
      this.connector.cancelling = (handle) => this.auditor.clients.cancelling(handle);
    }
    this.fabric = new Fabric(this.memory, this.auditor.sights.turns, {
      isSettled: (step) => this.executor.isSettled(step),
      delay: hooks?.delay ?? (() => 0),
      isNamed: hooks?.isNamed ?? (() => true),
      isStamped: hooks?.isStamped ?? false,
      wrong,
      ended: ({ pinned }) => {
        if (pinned !== null) this.connector?.pins.release(pinned);
      },
    });
    this.#transfers = new Transfers(this, numRanks, hooks?.isStamped ?? false);
    this.#observer = new Observer(this.scheduler);
  }

  /** The last events, oldest first. */
  get journal(): readonly string[] {
    return this.#journal.lines;
  }

  note(event: string): void {
    this.#journal.note(this.now, event);
  }

  text(handle: number): Text {
    return this.texts.get(handle) as Text;
  }

  name(handle: number): string {
    return this.auditor.ledger.accounts.get(handle)?.name ?? `handle ${handle}`;
  }

  /** @returns the handle, or the code of the refusal */
  add(asked: Asked, more: Partial<RequestInput> = {}, grammar: SimGrammar | null = null): number | string {
    const { id, prompt, maxTokens, salt, adapter } = asked;
    const input: RequestInput = { ...inputOf(asked), ...more };
    if (asked.isSession && this.index !== null) this.index.audit.hasSessions = true;
    if (grammar !== null) input.grammar = grammar;
    this.#begin(false);
    let outcome: number | string;
    const opened = (handle: number): void => {
      this.auditor.clients.added(asked, handle);
      if (grammar !== null) {
        grammar.handle = handle;
        grammar.audit = this.auditor.grammars;
        this.#grammars.set(handle, grammar);
      }
      this.texts.set(handle, new Text(prompt, keyOf(salt, adapter)));
    };
    if (this.connector !== null) this.connector.opened = opened;
    try {
      outcome = this.borrowing?.add(input) ?? this.scheduler.add(input);
      if (this.connector === null) opened(outcome);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== 'ERR_BLOCKSTEP_DUPLICATE_ID' && code !== 'ERR_BLOCKSTEP_UNFIT') throw threw('add', error);
      outcome = code;
    }
    this.note(`add ${id} of ${prompt.length} tokens, at most ${maxTokens} more: ${outcome}`);
    if (typeof outcome === 'string') this.auditor.clients.added(asked, outcome);
    this.look();
    return outcome;
  }

  /** The next chunk of a session, its stop tokens those of the first. */
  chunk(key: string | number, chunk: ChunkFacts): void {
    this.#begin(false);
    const { prompt, stops } = chunk;
    const { maxTokens, minTokens } = stops;
    let outcome: string;
    try {
      outcome = this.scheduler.addChunk(key, { prompt, maxTokens, minTokens });
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== 'ERR_BLOCKSTEP_UNFIT') throw threw('addChunk', error);
      outcome = code;
    }
    this.note(
      `chunk of ${prompt.length} tokens for ${this.#keyed(key)}, at most ${maxTokens} more: ${outcome}`,
    );
    this.auditor.sessions.chunked(key, chunk, outcome);
    this.#continueTexts();
    this.look();
  }

  endSession(key: string | number): void {
    this.#begin(false);
    const { ledger } = this.auditor;
    const account = typeof key === 'string' ? ledger.live.get(key) : ledger.accounts.get(key);
    const ends = account?.isLive && account.conversation?.isIdle && !account.conversation.hasEnded;
    const targets = new Set(ends ? [account] : []);
    const outcome = this.#endFromOutside(targets, () => this.scheduler.endSession(key));
    this.note(`end of ${this.#keyed(key)}: ${outcome}`);
    this.auditor.sessions.ended(key, outcome);
    this.look();
  }

  #keyed(key: string | number): string {
    return typeof key === 'string' ? key : this.name(key);
  }

  /** The texts of sessions go on with the chunks that were begun. */
  #continueTexts(): void {
    const { started } = this.auditor.ledger;
    for (const { handle, kept, chunk } of started) {
      this.texts.set(handle, this.text(handle).continued(kept, chunk.prompt));
    }
    started.length = 0;
  }

  abort(who: (string | number)[] | 'all'): void {
    this.#begin(false);
    const keys = who === 'all' ? [...this.auditor.ledger.live.keys()] : who;
    const targets = this.auditor.clients.aborting(keys);
    const [target] = targets;
    const rows = targets.size === 1 ? this.auditor.sights.turns.of(target.handle).rows : [];
    const ended = this.#endFromOutside(targets, () =>
      who === 'all' ? this.scheduler.abortAll() : this.scheduler.abort(who),
    );
    this.note(`abort ${keys.map((key) => this.#keyed(key))}: [${ended}]`);
    this.auditor.clients.aborted(targets, ended);
    const sight = this.look();
    if (rows.length > 0 && this.connector === null) this.auditor.groups.freed(target.name, rows, sight);
  }

  /** Requests that somebody ends from outside: a borrowing adapter gets them before. */
  #endFromOutside<T>(targets: ReadonlySet<Account>, act: () => T): T {
    const { borrowing } = this;
    return this.#call('an end', () => (borrowing === null ? act() : borrowing.endsFromOutside(targets, act)));
  }

  /** From inside a callback of the connector. */
  abortInside(keys: (string | number)[]): void {
    // The meaning of the keys then depends on the fence, which the auditor knows only at its end.
    if (this.#isFencing) return;
    this.note(`abort from a callback: ${keys}`);
    this.auditor.clients.abortQueued(keys);
    const ended = this.scheduler.abort(keys);
    if (ended.length > 0)
      throw new Violation('I14', `an abort from inside a callback ended [${ended}] at once`);
  }

  hold(handle: number, kind: OutstandingKind, owner: string): boolean {
    this.#begin(false);
    const answer = this.#call('hold', () => this.scheduler.hold(handle, kind, owner));
    this.note(`hold ${this.name(handle)} ${kind}:${owner}: ${answer}`);
    this.auditor.clients.held(handle, kind, owner, answer);
    this.look();
    return answer;
  }

  complete(handle: number, kind: OutstandingKind, owner: string): boolean {
    this.#begin(false);
    const answer = this.#call('complete', () => this.scheduler.complete(handle, kind, owner));
    this.note(`complete ${this.name(handle)} ${kind}:${owner}: ${answer}`);
    this.auditor.clients.completed(handle, kind, owner, answer);
    this.look();
    return answer;
  }

  pause(mode: 'new' | 'all' | 'none'): void {
    this.#begin(false);
    this.#call('pause', () => (mode === 'none' ? this.scheduler.resume() : this.scheduler.pause(mode)));
    this.auditor.ledger.isPaused = mode !== 'none';
    this.note(`pause ${mode}`);
    this.look();
  }

  reset(options: { resetRunning?: boolean; resetConnector?: boolean }): boolean {
    this.#begin(false);
    const running = new Set(this.scheduler.inspect().running);
    const { ok, local, connector, blockers, preempted } = this.#call('reset', () =>
      this.scheduler.resetPrefixCache(options),
    );
    this.note(
      `reset ${JSON.stringify(options)}: ${ok}, local ${local}, connector ${connector}, blockers [${blockers}], preempted [${preempted}]`,
    );
    const { ledger, steps } = this.auditor;
    for (const id of options.resetRunning === true ? running : []) {
      const account = ledger.live.get(id);
      if (account !== undefined) steps.resets(account);
    }
    if (options.resetRunning === true) this.auditor.voided(preempted);
    this.auditor.reset({ ok, local, connector, blockers }, this.look(), {
      pinned: this.connector?.pins.counts.size ?? 0,
      tier: options.resetConnector === true ? (this.connector?.resetAnswer ?? null) : null,
    });
    // A reset is for new weights, which come between steps: steps that were dispatched run before the memory is forgotten.
    while (local && this.executor.execute());
    if (local) this.memory.forget();
    return ok;
  }

  /** Schedules a step and dispatches it; not when the pipeline is full. */
  schedule(fails: (entry: number) => boolean = () => false, loses: Loses = () => []): Plan {
    this.auditor.began(this.now, true, true);
    const plan = this.#call('schedule', () => this.scheduler.schedule());
    this.borrowing?.planned();
    const facts = this.#observer.plan(plan);
    this.note(`schedule: step ${plan.step}, ${describePlan(facts, (handle) => this.name(handle))}`);
    this.index?.check(this.scheduler);
    const sight = this.#sight();
    this.auditor.unannounced(sight);
    this.auditor.steps.planned(facts);
    this.auditor.saw(sight);
    this.#lastEmpty.plan = plan.totalTokens === 0 ? plan : null;
    const { turns } = this.auditor.sights;
    const syncLoads = this.#transfers.dispatchLoads(plan);
    if (plan.totalTokens > 0) {
      this.plans.set(plan.step, plan);
      const holdings = facts.entries.map(({ handle }) => turns.of(handle));
      const texts = facts.entries.map(({ handle }) => this.text(handle));
      const newBlocks = takenIn(facts, holdings);
      // The blocks that loads fill are not zeroed any more.
      const zeroed = Array.from(this.#views.of(plan).blocksToZero ?? []);
      const drafts = this.#observer.drafts(plan);
      this.executor.dispatch({ ...facts, zeroed }, holdings, texts, drafts, fails, loses(holdings), () => {
        this.fabric.flush(newBlocks, this.now);
        for (const load of syncLoads) load();
      });
    }
    this.#check();
    return plan;
  }

  /** Executes the oldest dispatched step that was not yet. */
  execute(): boolean {
    const did = this.executor.execute();
    if (did) this.note('execute');
    this.#check();
    return did;
  }

  /** Makes the fabric do the work that is due. */
  progress(): void {
    this.fabric.progress(this.now);
    this.#check();
  }

  /** Delivers the oldest step, or the empty plan scheduled last, with reports. False when there is neither. */
  update(facts: TransferFacts = NO_TRANSFERS): boolean {
    const [oldest] = this.executor.steps;
    if (oldest === undefined) return this.#updateEmpty(facts);
    if (oldest.results === null) this.execute();
    const { step, results, lost } = this.executor.shift() as Dispatched & { results: EntryResult[] };
    const plan = this.plans.get(step) as Plan;
    this.plans.delete(step);
    const all = { ...this.#transfers.withSyncFailures(step, facts), lost: lost.map(({ block }) => block) };
    const fails = results.every(({ failed }) => failed);
    this.#deliver(plan, step, fails ? null : results, all);
    this.#draft(plan, results);
    return true;
  }

  #updateEmpty(facts: TransferFacts): boolean {
    const { plan } = this.#lastEmpty;
    if (plan === null) return false;
    this.#lastEmpty.plan = null;
    this.#deliver(plan, plan.step, [], facts);
    return true;
  }

  #deliver(plan: Plan, step: number, results: EntryResult[] | null, facts: TransferFacts): void {
    this.#begin(true);
    const { steps, transfers, recomputes } = this.auditor;
    this.auditor.ledger.updating = step;
    this.note(`update step ${step}${results === null ? ' (failed)' : ''}${describeTransfers(facts, this)}`);
    const output = this.#transfers.output(facts);
    const outputs = this.#call('update', () => {
      if (results === null) return this.scheduler.failStep(plan, output);
      const tokens = Int32Array.from(results.flatMap((result) => result.tokens));
      const counts = Int32Array.from(results, (result) => result.tokens.length);
      const failed = Uint8Array.from(results, (result) => (result.failed ? 1 : 0));
      const errors = failed.includes(1) ? { errors: failed } : {};
      return this.scheduler.update(plan, { tokens, counts, ...errors }, output);
    });
    const rows = this.#observer.rows(outputs);
    if (rows.length > 0) this.note(`  rows ${rows.map((row) => describeRow(row, this))}`);
    this.auditor.clients.drained();
    const lacks = transfers.lacks(step);
    if (results === null || results.some(({ failed }) => failed)) this.#mayVoid();
    transfers.failures(facts, step);
    transfers.lost(facts.lost);
    if (facts.invalid.length + facts.failed.length + facts.lost.length > 0 || lacks) this.#mayVoid();
    recomputes.began(step, results, facts.lost);
    steps.updated(step, results, rows);
    this.#continueTexts();
    transfers.settled(step);
    transfers.completions(facts);
    this.look();
    // Every block that can be found was computed. Only transfers know the blocks that arrived.
    const isQuiet = (this.connector === null || this.fabric.isIdle) && this.executor.steps.length === 0;
    if (isQuiet) this.auditor.groups.found(cachedBlocks(this.scheduler, this.memory));
  }

  /** Requests that shared failed blocks are computed again. So what any request has in flight may be dropped. */
  #mayVoid(): void {
    for (const account of this.auditor.ledger.live.values()) this.auditor.steps.void(account, 'either');
    this.auditor.transfers.voided();
  }

  /** Reports without a step. */
  report(arrived: TransferFacts): void {
    const facts = this.#transfers.withSyncFailures(-1, arrived);
    this.#begin(true);
    this.note(`reports${describeTransfers(facts, this)}`);
    this.#call('updateTransfers', () => this.scheduler.updateTransfers(this.#transfers.output(facts) ?? {}));
    this.auditor.clients.drained();
    this.auditor.transfers.failures(facts, -1);
    if (facts.invalid.length + facts.failed.length > 0) this.#mayVoid();
    this.auditor.transfers.completions(facts);
    this.look();
  }

  /** Ends all transfers of a child, or of all children: none of them touches memory any more. */
  fence(child?: number): void {
    this.#begin(false);
    this.note(`fence ${child ?? 'all'}`);
    const uses = this.auditor.transfers.fencing(child);
    this.fabric.fence(child);
    this.#isFencing = true;
    this.#call('fenceTransfers', () => this.scheduler.fenceTransfers(child));
    this.#isFencing = false;
    this.auditor.transfers.fenced(uses);
    this.look();
  }

  /** Looks at the scheduler, and compares. */
  look(): ReturnType<Observer['sight']> {
    const sight = this.#sight();
    this.auditor.unannounced(sight);
    this.auditor.saw(sight);
    this.#check();
    this.#transfers.submitStores();
    return sight;
  }

  #sight(): ReturnType<Observer['sight']> {
    const sight = this.#observer.sight(
      this.now,
      this.connector?.pins.counts,
      this.connector?.hasPendingWork(),
    );
    this.borrowing?.saw(sight);
    return sight;
  }

  /** Everything must be over. */
  end(): void {
    this.auditor.empty(this.look());
    this.borrowing?.end();
    this.#call('verify', () => this.scheduler.verify());
    if (!this.fabric.isIdle) throw new Violation('I19', 'the fabric has jobs or reports left');
  }

  dispose(): void {
    this.scheduler.dispose();
  }

  #begin(drains: boolean): void {
    this.auditor.began(this.now, drains);
  }

  #check(): void {
    this.borrowing?.check();
    const { connector } = this;
    if (connector !== null && connector.violation !== null) throw threw('a callback', connector.violation);
    for (const [handle, { violation }] of this.#grammars) {
      if (violation !== null) throw threw('a grammar', violation);
      if (this.auditor.ledger.accounts.get(handle)?.isLive === false) this.#grammars.delete(handle);
    }
    const wrong = this.#wrong;
    this.#wrong = null;
    if (wrong !== null) throw new Violation('I7', wrong);
  }

  #call<T>(name: string, act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw threw(name, error);
    } finally {
      this.#check();
    }
  }

  #draft(plan: Plan, results: EntryResult[]): void {
    const { numSpeculativeTokens, pipelineDepth } = this.scheduler.config;
    if (numSpeculativeTokens === 0 || pipelineDepth > 1) return;
    const { live, accounts } = this.auditor.ledger;
    const drafts = results.map(({ tokens }, i) => {
      const account = accounts.get(plan.requests[i].handle);
      if (account === undefined || tokens.length === 0 || live.get(account.asked.id) !== account) return [];
      return draft(this.text(account.handle), account.numTokens, numSpeculativeTokens);
    });
    const counts = Int32Array.from(drafts, ({ length }) => length);
    this.#begin(false);
    this.#call('updateDraftTokens', () =>
      this.scheduler.updateDraftTokens(plan, { tokens: Int32Array.from(drafts.flat()), counts }),
    );
    this.look();
  }
}
