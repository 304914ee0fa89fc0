// A run: events, then the phase without faults, or an end in the middle of everything.
import { Engine } from '../../../src/engine/engine.js';
import type { StepReport } from '../../../src/engine/loop/step-loop.js';
import { ruledConfig } from '../../../src/scheduler/options/options.js';
import { carryRules } from '../../../src/scheduler/options/single-rules.js';
import { schedulerOf } from '../../support/scheduler-of.js';
import { type Sight, Violation } from '../audit/facts.js';
import { SimBorrower } from '../shared/borrow/borrower.js';
import { type BorrowerShape, CAUSED_BY_BORROWERS } from '../shared/borrow/draw-borrower.js';
import { EventDice } from '../shared/draws.js';
import { Observer } from '../shared/observer.js';
import type { Rng } from '../shared/rng.js';
import type { Tally } from '../shared/run.js';
import { threw } from '../shared/threw.js';
import { EngineAudit } from './audit.js';
import { Crowd } from './crowd.js';
import { SimExecutor } from './executor.js';
import { Operator } from './operator.js';
import { ENGINE_EVENTS, type EngineEvent, type EngineSetup } from './setup.js';
import { Stage } from './stage.js';
import { SimConnector } from './tier/connector.js';
import { SimWorker } from './tier/worker.js';
import { Waits } from './waits.js';

const NOT_WAITING = new Set(['RUNNING', 'WAITING', 'PREEMPTED']);

/** Events that change nothing in the engine: it is not looked at after them. */
const BESIDE: ReadonlySet<EngineEvent> = new Set(['compute', 'answer', 'read', 'progress']);

/**
 * One life of an engine in a world that is all simulated. Clients, operator, executor, connector
 * and workers do everything in the order that the seed draws. First so many events with faults,
 * then none and no new work, until nothing is left.
 */
export class EngineLife {
  readonly stage: Stage;
  readonly engine: Engine;
  /** Events so far. */
  step = 0;
  readonly #executor: SimExecutor;
  readonly #connector: SimConnector | null;
  readonly #workers: SimWorker[];
  readonly #borrower: SimBorrower | null;
  readonly #observer: Observer;
  readonly #audit: EngineAudit;
  readonly #crowd: Crowd;
  readonly #operator: Operator;
  readonly #waits: Waits;
  readonly #dice: EventDice<EngineEvent>;
  /** How many records the log takes until its sink fails; below 0 it has failed. */
  #recordsLeft: number;
  /**
   * The report of the last step, until the engine was looked at; `#planned` is the last plan that
   * was looked at.
   */
  #report: StepReport | null = null;
  #planned = 0;
  /** Consecutive steps that reported `stalled` with nothing left to do. */
  #stalledOver = 0;
  #numAllocations = 0;

  constructor(setup: EngineSetup) {
    const stage = new Stage(setup);
    this.stage = stage;
    this.#executor = new SimExecutor(stage);
    this.#connector = setup.tier === null ? null : new SimConnector(stage, setup.tier);
    const { numRanks = 0 } = setup.tier ?? {};
    this.#workers = Array.from(
      { length: numRanks },
      (_, rank) => new SimWorker(stage, rank, this.#connector as SimConnector, this.#executor),
    );
    this.#recordsLeft =
      setup.faults.logFails > 0 ? stage.rng('log').between(5, 4000) : Number.POSITIVE_INFINITY;
    const log = { write: () => this.#write() };
    this.#borrower = setup.borrower === null ? null : this.#lend(setup.borrower);
    this.engine = new Engine({
      ...carryRules(setup.engine),
      executor: this.#executor,
      connector: this.#connector,
      workers: this.#workers as never,
      borrower: this.#borrower,
      now: () => stage.now,
      ...(setup.faults.logFails > 0 ? { log } : {}),
    });
    stage.engine = this.engine;
    this.#observer = new Observer(schedulerOf(this.engine));
    this.#audit = new EngineAudit(stage);
    this.#waits = new Waits(stage, this.#connector);
    this.#crowd = new Crowd(stage, this.#waits.timeouts);
    this.#operator = new Operator(stage, this.#executor, this.#connector, this.#workers);
    this.#dice = new EventDice(ENGINE_EVENTS, setup.workload.weights);
    this.#executor.inside = () => this.#insideExecute();
    if (this.#connector !== null) this.#connector.inside = () => this.#crowd.abort('connector');
  }

  #lend(shape: BorrowerShape): SimBorrower {
    const { stage } = this;
    for (const reason of CAUSED_BY_BORROWERS) stage.excused.add(reason);
    return new SimBorrower(shape, {
      rng: stage.rng('borrowing'),
      isCalm: () => stage.isCalm,
      broke: (invariant, message) => stage.broke(invariant, `the borrowing adapter: ${message}`),
      failed: (handle) => stage.blame(handle, 'borrower'),
      endNow: null,
    });
  }

  get isBroken(): boolean {
    return this.#recordsLeft < 0;
  }

  /** Runs both phases. @throws Violation */
  async run(numEvents: number): Promise<void> {
    const rng = this.stage.rng('events');
    while (this.step < numEvents && !this.isBroken) {
      this.step++;
      this.stage.now += rng.below(this.setup.workload.tick);
      this.#guarded(() => this.#progress());
      const event = this.#dice.draw(rng);
      this.#guarded(() => this.#event(event, rng));
      this.stage.check();
      if (!BESIDE.has(event)) this.look();
      if (rng.chance(0.7)) await settled();
    }
    if (!this.isBroken) this.#count();
    await this.#end();
    if (this.isBroken) await this.#endBroken();
    for (const client of this.#crowd.clients.values()) client.check();
    this.stage.check();
  }

  /** Ends the run in the way of its setup. The log may fail here too. */
  async #end(): Promise<void> {
    const { end } = this.setup;
    try {
      if (!this.isBroken) await (end === 'drain' ? this.#drain() : this.#endAtOnce(end));
    } catch (error) {
      if (!this.isBroken || error instanceof Violation) throw error;
    }
  }

  get journal(): readonly string[] {
    return this.stage.journal;
  }

  get tally(): Tally {
    return this.stage.tally;
  }

  get setup(): EngineSetup {
    return this.stage.setup;
  }

  /** Looks at the engine, and compares. */
  look(): Sight | null {
    this.stage.check();
    if (this.isBroken || this.stage.isOver) return null;
    const sight = this.#guarded(() => this.#observer.sight(this.stage.now, this.#connector?.pins.counts));
    if (sight === undefined) return null;
    this.#audit.check(sight, this.#crowd.clients);
    if (this.#report !== null) this.#audit.ghosts(sight, this.#crowd.clients);
    this.#waits.watch(sight);
    const report = this.#report;
    this.#report = null;
    if (report !== null) this.#stepped(sight, report);
    this.#checkWork(sight, report);
    return sight;
  }

  /** Disposes the engine, even where the log fails at its last record. */
  dispose(): void {
    this.stage.isOver = true;
    try {
      this.engine.dispose();
    } catch (error) {
      if (!this.isBroken) throw error;
    }
  }

  #event(event: EngineEvent, rng: Rng): void {
    const { stage } = this;
    switch (event) {
      case 'step':
        this.#step();
        break;
      case 'compute':
        if (this.#executor.compute()) stage.note('compute');
        break;
      case 'answer':
        if (!this.#executor.answer(rng.chance(0.7) ? 0 : 1)) this.#executor.compute();
        break;
      case 'submit':
        this.#crowd.submit();
        break;
      case 'read':
        for (const client of this.#crowd.clients.values()) if (rng.chance(0.1)) client.read();
        break;
      case 'abort':
        this.#crowd.abort('outside');
        break;
      case 'chunk':
        this.#crowd.chunk();
        break;
      case 'progress':
        stage.now += rng.below(60);
        break;
      case 'hold':
        this.#hold();
        break;
      case 'complete':
        this.#operator.complete();
        break;
      case 'reset':
        this.#operator.reset(rng);
        break;
      case 'pause':
        this.#operator.pause(rng.chance(0.5) ? 'new' : 'all');
        break;
      case 'resume':
        this.#operator.resume();
        break;
      case 'fence':
        this.#operator.fence(rng.chance(0.5) ? undefined : rng.below(this.#connector?.numChildren ?? 1));
        break;
    }
  }

  /** Makes a call that must not throw: if it does, that is a violation, unless the log has failed. */
  #guarded<T>(act: () => T): T | undefined {
    try {
      return act();
    } catch (error) {
      if (this.isBroken) return undefined;
      throw threw('the engine', error);
    }
  }

  #progress(): void {
    this.#connector?.pins.sweep();
    for (const worker of this.#workers) worker.advance();
  }

  #step(): void {
    const { stage, engine } = this;
    this.#report = null;
    this.#waits.blame();
    this.#report = engine.step();
    stage.note(`step: ${describeReport(this.#report)}`);
  }

  /** Checks what must be so after a step that made a plan. */
  #stepped(sight: Sight, { scheduledTokens, answered, stepsInFlight }: StepReport): void {
    const { step } = sight.gauges;
    if (step === this.#planned) return;
    this.#planned = step;
    const hasUpdated = answered || scheduledTokens === 0;
    this.#waits.check(sight, (handle) => this.#operator.isHeld(handle), hasUpdated);
    const isWedged = stepsInFlight === 0 && this.#isWedged() && !this.#hasAllocated();
    this.#audit.stepped(sight, scheduledTokens > 0, isWedged);
  }

  /** Whether somebody has been given blocks for a load since this was asked last: that is progress, though nothing is computed. */
  #hasAllocated(): boolean {
    const before = this.#numAllocations;
    this.#numAllocations = this.#connector?.numAllocations ?? 0;
    return this.#numAllocations > before;
  }

  /** I10: requests that do not wait for their client, and transfers of the connector, count as work; quarantined requests do not. */
  #checkWork({ hasWork, requests, draining }: Sight, report: StepReport | null): void {
    const isPending = this.#connector?.hasPendingWork() ?? false;
    if (isPending && !hasWork) throw new Violation('I10', 'the connector has work, and hasWork() is false');
    const waiting = requests.find(({ status }) => status !== 'WAITING_FOR_STREAMING_REQ');
    if (waiting !== undefined && !hasWork && !this.#operator.isPaused)
      throw new Violation('I10', `${waiting.id} is ${waiting.status}, and hasWork() is false`);
    if (report === null) return;
    // Ids of requests that ended in this very step go out with the next plan.
    const owes = this.#connector?.owesMetadata === true && this.#workers.length > 0;
    const isOver = !isPending && !owes && requests.length + draining.length === 0;
    this.#stalledOver = report.state === 'stalled' && isOver ? this.#stalledOver + 1 : 0;
    if (this.#stalledOver < 2) return;
    throw new Violation('I10', 'an engine is stalled that has nothing to do');
  }

  /** Whether some request could run: it waits for nothing outside, and nothing outside keeps blocks or rows from it. */
  #isWedged(): boolean {
    const { requests, draining } = this.engine.scheduler.inspect();
    const isUsed = requests.some(({ outstanding }) => (outstanding?.size ?? 0) > 0);
    const pinned = this.#connector?.pins.counts.size ?? 0;
    const asksLater = this.setup.tier !== null && this.setup.tier.asksLater > 0 && !this.stage.isCalm;
    if ((this.#borrower?.heldUp.size ?? 0) > 0) return false;
    if (this.#operator.isPaused || isUsed || draining.length > 0 || pinned > 0 || asksLater) return false;
    // Sessions that wait for their clients may take all seats.
    const { sessionSeats, maxNumSeqs } = ruledConfig(this.engine.scheduler.config);
    const numIdle = requests.filter(({ status }) => status === 'WAITING_FOR_STREAMING_REQ').length;
    if (sessionSeats === 'withIdle' && numIdle >= maxNumSeqs) return false;
    return requests.some(({ status, load }) => NOT_WAITING.has(status) || load !== null);
  }

  /** The blocks of somebody are held. */
  #hold(): void {
    const rng = this.stage.rng('holds');
    const client = this.#crowd.someone(rng);
    if (client !== undefined) this.#operator.hold(client, rng);
  }

  #insideExecute(): void {
    const rng = this.stage.rng('inside');
    if (this.stage.strikes('abortInside', rng)) this.#crowd.abort('executor');
    if (this.stage.strikes('submitInside', rng)) this.#crowd.submit(true);
  }

  /** No faults and no new work from here on: within a bound everything is over. */
  async #drain(): Promise<void> {
    const { stage, engine } = this;
    stage.isCalm = true;
    this.stage.note('no faults and no new work any more');
    let tokens = 0;
    for (const { stream, wish } of this.#crowd.clients.values()) {
      if (!stream.ended) tokens += 2 * (this.setup.engine.maxModelLen ?? 0) + wish.prompt.length;
    }
    const bound = 200 + 4 * tokens;
    this.#operator.resume();
    while (this.#operator.numHolds > 0) this.#operator.complete();
    for (const client of this.#crowd.clients.values()) {
      client.read();
      if (!client.isSessionOpen) continue;
      client.inputEnded = true;
      client.stream.endInput();
    }
    for (const worker of this.#workers) worker.calm();
    for (let round = 0; !this.#isDone(); round++) {
      stage.now += 5;
      this.#progress();
      this.#step();
      while (this.#executor.answer(0));
      while (this.#executor.compute() && this.#executor.answer(0));
      await settled();
      this.look();
      // Nobody reports the orders of a connector or worker that failed, so the simulation fences
      // it.
      if (round % 20 === 19 && this.#workers.every(({ isIdle }) => isIdle)) this.#operator.fence(undefined);
      if (round < bound) continue;
      const { scheduler } = engine.stats();
      throw new Violation(
        'I10',
        `not over after ${round} rounds without faults: ${JSON.stringify(scheduler)}`,
      );
    }
    for (let i = 0; i < 20; i++) await settled();
    const sight = this.look();
    if (sight !== null) this.#audit.empty(sight);
    engine.verify();
    this.#checkPeers();
    for (const handle of this.#borrower === null ? [] : this.#audit.lived) {
      if (this.#borrower?.hasForgotten(handle)) continue;
      throw new Violation('I5', `the borrowing adapter was never told to forget ${this.stage.name(handle)}`);
    }
  }

  #isDone(): boolean {
    const { scheduler, streams, abortsQueued } = this.engine.stats();
    const isQuiet = this.#workers.every(({ isIdle }) => isIdle) && (this.#connector?.isIdle ?? true);
    const left = scheduler.numQuarantined + streams + abortsQueued + this.#executor.numWaiting;
    return isQuiet && left === 0 && !this.engine.hasWork();
  }

  /** Every worker got the end of every request. */
  #checkPeers(): void {
    for (const [rank, worker] of this.#workers.entries()) {
      for (const handle of this.#audit.lived) {
        if (worker.told.has(handle)) continue;
        throw new Violation('I20', `rank ${rank} was never told that ${this.stage.name(handle)} finished`);
      }
    }
  }

  /** The engine is ended in the middle of everything: every stream ends, with an abort or with a code. */
  async #endAtOnce(how: 'dispose' | 'shutdown'): Promise<void> {
    const { stage, engine } = this;
    stage.note(how);
    stage.isOver = true;
    for (const client of this.#crowd.clients.values()) {
      if (how === 'shutdown') client.asked(undefined);
      client.read();
    }
    if (how === 'dispose') engine.dispose();
    else {
      const ended = engine.shutdown({ drainMs: 0 });
      await ended;
    }
    for (let i = 0; i < 20; i++) await settled();
    const { state } = engine.health();
    if (state !== 'disposed') throw new Violation('I13', `health says ${state} after ${how}`);
  }

  /** The log failed: every stream fails with a code, health reports it, and nothing hangs. */
  async #endBroken(): Promise<void> {
    const { stage, engine } = this;
    if (engine.health().state === 'disposed') return;
    stage.isOver = true;
    for (const client of this.#crowd.clients.values()) client.read();
    for (let i = 0; i < 20; i++) await settled();
    const { state, healthy } = engine.health();
    if (state !== 'broken' || healthy)
      throw new Violation('I13', `health says ${state} when the log has failed`);
    stage.count('broken');
  }

  #count(): void {
    const { anomalies, finished: _, outstanding: __, groups: ___, ...stats } = this.engine.stats().scheduler;
    for (const [what, count] of Object.entries({ ...stats, ...anomalies })) this.stage.count(what, count);
  }

  #write(): void {
    if (--this.#recordsLeft > 0) return;
    this.#recordsLeft = -1;
    this.stage.isOver = true;
    throw new Error('the log is full');
  }
}

function describeReport({
  scheduledRequests,
  scheduledTokens,
  answered,
  ended,
  stepsInFlight,
  state,
}: StepReport): string {
  const said = [
    `${scheduledRequests} requests, ${scheduledTokens} tokens`,
    `${stepsInFlight} in flight`,
    state,
  ];
  if (answered) said.push('answered');
  if (ended > 0) said.push(`${ended} ended`);
  return said.join(', ');
}

/** Resolves when all promises have settled that can settle without an event from outside. */
async function settled(): Promise<void> {
  for (let i = 0; i < 8; i++) await Promise.resolve();
}
