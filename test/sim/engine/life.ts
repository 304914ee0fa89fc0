import { Engine } from '../../../src/engine/engine.js';
import type { StepReport } from '../../../src/engine/loop/step-loop.js';
import type { OutstandingKind } from '../../../src/scheduler/request/outstanding.js';
import { type Sight, Violation } from '../audit/facts.js';
import { Observer } from '../observe.js';
import type { Rng } from '../rng.js';
import { END_TOKEN } from '../text.js';
import { EngineAudit } from './audit.js';
import { Client, SimGrammar, textOf, type Wish } from './clients.js';
import { SimConnector } from './connector.js';
import { SimExecutor } from './executor.js';
import { ENGINE_EVENTS, type EngineEvent, type EngineSetup } from './setup.js';
import { Stage, threw } from './stage.js';
import { Timeouts } from './timeouts.js';
import { SimWorker } from './worker.js';

const NOT_WAITING = new Set(['RUNNING', 'WAITING', 'PREEMPTED']);

/** Events that change nothing in the engine. */
const BESIDE: ReadonlySet<EngineEvent> = new Set(['compute', 'answer', 'read', 'progress']);

interface Hold {
  handle: number;
  kind: OutstandingKind;
  owner: string;
}

/** Since when a request waits for something that has a deadline. */
interface Wait {
  key: string;
  since: number;
}

/**
 * One life of an engine in a world that is all simulated: clients, operator, executor, connector and workers do everything in
 * the order that the seed draws. First so many events with faults, then none and no new work, until nothing is left.
 */
export class EngineLife {
  readonly stage: Stage;
  readonly engine: Engine;
  /** Events so far. */
  step = 0;
  readonly #executor: SimExecutor;
  readonly #connector: SimConnector | null;
  readonly #workers: SimWorker[];
  readonly #observer: Observer;
  readonly #audit: EngineAudit;
  readonly #clients = new Map<number, Client>();
  readonly #holds: Hold[] = [];
  readonly #waits = new Map<number, Wait>();
  readonly #timeouts: Timeouts;
  readonly #totalWeight: number;
  /** Records of the log until its sink fails. */
  #recordsLeft: number;
  #pauseMode: 'none' | 'new' | 'all' = 'none';
  /** What the last step did, until it was looked at; and how many plans had been made then. */
  #report: StepReport | null = null;
  #planned = 0;
  /** What is being submitted, or was last; and whether its connector aborted it meanwhile. */
  #submitting: { id: string; asked: boolean; reason: unknown } | null = null;
  /** Steps in a row that stalled with nothing left to do. */
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
    this.engine = new Engine({
      ...setup.engine,
      executor: this.#executor,
      connector: this.#connector,
      workers: this.#workers as never,
      now: () => stage.now,
      ...(setup.faults.logFails > 0 ? { log } : {}),
    });
    stage.engine = this.engine;
    this.#observer = new Observer(this.engine.scheduler);
    this.#audit = new EngineAudit(stage);
    this.#timeouts = new Timeouts(stage);
    this.#totalWeight = ENGINE_EVENTS.reduce((sum, event) => sum + setup.workload.weights[event], 0);
    this.#executor.inside = () => this.#insideExecute();
    if (this.#connector !== null) this.#connector.inside = () => this.#abort('connector');
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
      const event = this.#draw(rng);
      this.#guarded(() => this.#event(event, rng));
      this.stage.check();
      // The others change nothing that can be seen.
      if (!BESIDE.has(event)) this.look();
      if (rng.chance(0.7)) await settled();
    }
    if (!this.isBroken) this.#tally();
    await this.#end();
    if (this.isBroken) await this.#endBroken();
    for (const client of this.#clients.values()) client.check();
    this.stage.check();
  }

  /** The log may fail here too. */
  async #end(): Promise<void> {
    const { end } = this.setup;
    try {
      if (!this.isBroken) await (end === 'drain' ? this.#drain() : this.#endAtOnce(end));
    } catch (error) {
      if (!this.isBroken || error instanceof Violation) throw error;
    }
  }

  get setup(): EngineSetup {
    return this.stage.setup;
  }

  /** Looks at the engine, and compares. */
  look(): Sight | null {
    this.stage.check();
    if (this.isBroken || this.stage.isOver) return null;
    const sight = this.#guarded(() => this.#observer.sight(this.stage.now, this.#connector?.pins));
    if (sight === undefined) return null;
    this.#audit.check(sight, this.#clients);
    if (this.#report !== null) this.#audit.ghosts(sight, this.#clients);
    this.#watch(sight);
    const report = this.#report;
    this.#report = null;
    if (report !== null) this.#stepped(sight, report);
    this.#checkWork(sight, report);
    return sight;
  }

  /** The last record of the log may be the one that does not fit. */
  dispose(): void {
    this.stage.isOver = true;
    try {
      this.engine.dispose();
    } catch (error) {
      if (!this.isBroken) throw error;
    }
  }

  #draw(rng: Rng): EngineEvent {
    const { weights } = this.setup.workload;
    let dice = rng.below(this.#totalWeight);
    let i = 0;
    while (dice >= weights[ENGINE_EVENTS[i]]) dice -= weights[ENGINE_EVENTS[i++]];
    return ENGINE_EVENTS[i];
  }

  #event(event: EngineEvent, rng: Rng): void {
    const { stage, engine } = this;
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
        this.#submit();
        break;
      case 'read':
        for (const client of this.#clients.values()) if (rng.chance(0.1)) client.read();
        break;
      case 'abort':
        this.#abort('outside');
        break;
      case 'chunk':
        this.#chunk();
        break;
      case 'progress':
        stage.now += rng.below(60);
        break;
      case 'hold':
        this.#hold();
        break;
      case 'complete':
        this.#complete();
        break;
      case 'reset':
        this.#reset(rng);
        break;
      case 'pause':
        this.#pauseMode = rng.chance(0.5) ? 'new' : 'all';
        engine.pause(this.#pauseMode);
        stage.note(`pause ${this.#pauseMode}`);
        break;
      case 'resume':
        this.#pauseMode = 'none';
        engine.resume();
        break;
      case 'fence':
        this.#fence(rng.chance(0.5) ? undefined : rng.below(this.#connector?.numChildren ?? 1));
        break;
    }
  }

  /** Runs what a test would call; a call that throws is a violation, unless the log has failed. */
  #guarded<T>(act: () => T): T | undefined {
    try {
      return act();
    } catch (error) {
      if (this.isBroken) return undefined;
      throw threw('the engine', error);
    }
  }

  #progress(): void {
    this.#connector?.sweep();
    for (const worker of this.#workers) worker.advance();
  }

  #step(): void {
    const { stage, engine } = this;
    this.#report = null;
    this.#blameWaits();
    this.#report = engine.step();
    stage.note(`step: ${describeReport(this.#report)}`);
  }

  /** What has to be so after a round of the engine that made a plan. */
  #stepped(sight: Sight, { scheduledTokens, stepsInFlight }: StepReport): void {
    const { step } = sight.gauges;
    if (step === this.#planned) return;
    this.#planned = step;
    this.#checkWaits(sight);
    const isWedged = stepsInFlight === 0 && this.#isWedged() && !this.#hasAllocated();
    this.#audit.stepped(sight, scheduledTokens > 0, isWedged);
  }

  /** Whether somebody has been given blocks for a load since this was asked last: that is progress, though nothing is computed. */
  #hasAllocated(): boolean {
    const before = this.#numAllocations;
    this.#numAllocations = this.#connector?.numAllocations ?? 0;
    return this.#numAllocations > before;
  }

  /** I10: what the connector does is work, and what is in quarantine is none. */
  #checkWork({ hasWork, requests, draining }: Sight, report: StepReport | null): void {
    const isPending = this.#connector?.hasPendingWork() ?? false;
    if (isPending && !hasWork) throw new Violation('I10', 'the connector has work, and hasWork() is false');
    if (report === null) return;
    // Ids of requests that ended in this very step go out with the next plan.
    const owes = this.#connector?.owesMetadata === true && this.#workers.length > 0;
    const isOver = !isPending && !owes && requests.length + draining.length === 0;
    this.#stalledOver = report.state === 'stalled' && isOver ? this.#stalledOver + 1 : 0;
    if (this.#stalledOver < 2) return;
    throw new Violation('I10', 'an engine is stalled that has nothing to do');
  }

  /** Somebody waits for nothing outside, and nothing outside keeps anything from it. */
  #isWedged(): boolean {
    const { requests, draining } = this.engine.scheduler.inspect();
    const isUsed = requests.some(({ outstanding }) => (outstanding?.size ?? 0) > 0);
    const pinned = this.#connector?.pins.size ?? 0;
    const asksLater = this.setup.tier !== null && this.setup.tier.asksLater > 0 && !this.stage.isCalm;
    if (this.#pauseMode !== 'none' || isUsed || draining.length > 0 || pinned > 0 || asksLater) return false;
    return requests.some(({ status, load }) => NOT_WAITING.has(status) || load !== null);
  }

  /** Notes since when each request waits for something that has a deadline. */
  #watch(sight: Sight): void {
    this.#timeouts.watch(sight);
    const allocations = this.#connector?.allocations;
    for (const { handle, status } of [...sight.requests, ...sight.draining]) {
      const key = `${status} ${allocations?.get(handle)}`;
      if (this.#waits.get(handle)?.key !== key) this.#waits.set(handle, { key, since: this.stage.now });
    }
  }

  #deadlineOf(status: string): number {
    const { load = 0, grammar = 0, streamingInput = 0, reclaim = 0 } = this.setup.engine.deadlines || {};
    if (status === 'WAITING_FOR_REMOTE_KVS') return load;
    if (status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR') return grammar;
    if (status === 'WAITING_FOR_STREAMING_REQ') return streamingInput;
    return status.startsWith('FINISHED') ? reclaim : 0;
  }

  #isExpired(handle: number): boolean {
    const wait = this.#waits.get(handle);
    const deadline = wait === undefined ? 0 : this.#deadlineOf(wait.key.split(' ')[0]);
    return wait !== undefined && deadline > 0 && this.stage.now >= wait.since + deadline;
  }

  #blameWaits(): void {
    const { load = 0 } = this.setup.engine.deadlines || {};
    for (const [handle, since] of this.#connector?.asking ?? []) {
      if (load > 0 && this.stage.now >= since + load) this.stage.blame(handle, 'wait');
    }
    for (const handle of this.#timeouts.late()) this.stage.blame(handle, 'wait');
    for (const handle of this.#waits.keys()) {
      if (this.#isExpired(handle)) this.stage.blame(handle, 'wait');
      if (this.engine.scheduler.getByHandle(handle) === undefined) this.#waits.delete(handle);
    }
  }

  /** I10: after a schedule no wait is past its deadline. */
  #checkWaits(sight: Sight): void {
    for (const handle of this.#timeouts.late())
      throw new Violation(
        'I10',
        `${this.stage.name(handle)} goes on, and its time in the queue or as a whole is over`,
      );
    const isLoading = (handle: number) =>
      this.engine.scheduler.getByHandle(handle)?.outstanding?.hasAny('load') === true;
    for (const { handle, status } of [...sight.requests, ...sight.draining]) {
      if (!this.#isExpired(handle) || (status === 'WAITING_FOR_REMOTE_KVS' && !isLoading(handle))) continue;
      if (this.#holds.some((hold) => hold.handle === handle)) continue;
      throw new Violation('I10', `${this.stage.name(handle)} is ${status}, and its deadline is over`);
    }
  }

  #insideExecute(): void {
    const rng = this.stage.rng('inside');
    if (this.stage.strikes('abortInside', rng)) this.#abort('executor');
    if (this.stage.strikes('submitInside', rng)) this.#submit(true);
  }

  #submit(isInside = false): void {
    const { stage, engine } = this;
    const wish = this.#wish();
    const controller = new AbortController();
    const text = textOf(wish, this.setup.engine.maxModelLen ?? 0);
    const grammar = wish.hasGrammar
      ? new SimGrammar(stage, 17, stage.now + stage.rng('clients').below(60))
      : undefined;
    const { id, prompt, maxTokens, minTokens, salt, adapter, priority, stopTokenIds, eosTokenId } = wish;
    let client: Client;
    const submitting = { id: wish.id, asked: false, reason: undefined };
    this.#submitting = submitting;
    try {
      const stream = engine.submit(
        {
          ...{ id, prompt, maxTokens, minTokens, cacheSalt: salt, adapter, priority, stopTokenIds },
          ...(eosTokenId >= 0 ? { eosTokenId } : {}),
          ...(wish.isSession ? { resumable: true } : {}),
          ...(grammar === undefined ? {} : { grammar }),
          ...(wish.timeoutMs === undefined ? {} : { timeoutMs: wish.timeoutMs }),
        },
        { signal: controller.signal },
      );
      if (grammar !== undefined) grammar.handle = stream.handle;
      stage.transcripts.set(stream.handle, text);
      stage.call(stream.handle, id);
      client = new Client(stage, wish, stream, text, controller);
      this.#clients.set(stream.handle, client);
      this.#timeouts.submitted(stream.handle, wish.timeoutMs);
      const { asked, reason } = submitting;
      if (asked) Object.assign(client, { abortAsked: true, reason });
      if (asked && !stream.ended)
        stage.broke('I14', `${client.name} was aborted when its connector was told of it, and goes on`);
      stage.note(
        `submit ${client.name}: ${prompt.length} + ${maxTokens}${wish.isSession ? ', a session' : ''}`,
      );
    } catch (error) {
      this.#refused(wish, error, isInside);
    } finally {
      this.#submitting = null;
    }
  }

  #refused({ id, prompt }: Wish, error: unknown, isInside: boolean): void {
    const { code = '' } = error as { code?: string };
    const { numBlocks, blockSize = 16, maxModelLen = 0 } = this.setup.engine;
    const isTaken = [...this.#clients.values()].some(({ wish, stream }) => wish.id === id && !stream.ended);
    if (code === 'ERR_BLOCKSTEP_DUPLICATE_ID' && (isTaken || isInside)) return;
    if (code === 'ERR_BLOCKSTEP_SHUTDOWN' && this.stage.isOver) return;
    const room = Math.min(maxModelLen - 1, (numBlocks - 1) * blockSize);
    if (code === 'ERR_BLOCKSTEP_UNFIT' && prompt.length > room) return;
    throw error;
  }

  #wish(): Wish {
    const rng = this.stage.rng('clients');
    const { workload } = this.setup;
    const { longestPrompt, mostTokens, numIds, numFamilies, numAdapters, sessions, grammars } = workload;
    const length = rng.between(1, longestPrompt);
    const family = rng.below(numFamilies);
    const fork = rng.chance(0.3) ? rng.below(length) : length;
    const prompt = Int32Array.from({ length }, (_, i) =>
      i >= fork ? 500 + rng.below(40) : 20 + family * 100 + i,
    );
    const maxTokens = rng.between(1, mostTokens);
    const stopsBy = rng.below(3);
    const timed = this.stage.rng('timeouts of requests');
    const timeoutMs = timed.chance(workload.timeouts) ? timed.between(40, 500) : undefined;
    const wish: Wish = {
      id: `r${rng.below(numIds)}`,
      prompt,
      maxTokens,
      minTokens: rng.chance(0.2) ? maxTokens : 0,
      eosTokenId: stopsBy === 0 ? END_TOKEN : -1,
      stopTokenIds: stopsBy === 1 ? [END_TOKEN] : [],
      salt: rng.chance(0.1) ? 'salt' : '',
      adapter: numAdapters > 0 ? rng.pick(['', 'a', 'b', 'c']) : '',
      priority: rng.below(3),
      isSession: rng.chance(sessions),
      hasGrammar: rng.chance(grammars),
      reads: rng.pick(['at once', 'at once', 'at once', 'late', 'leaves']),
    };
    // When the time of a session begins depends on its answers, which the other simulation counts.
    if (timeoutMs !== undefined && !wish.isSession) wish.timeoutMs = timeoutMs;
    return wish;
  }

  #chunk(): void {
    const rng = this.stage.rng('clients');
    const open = [...this.#clients.values()].filter(({ isSessionOpen }) => isSessionOpen);
    if (open.length === 0) return;
    const client = rng.pick(open);
    const { stream, wish, text, name } = client;
    if (rng.chance(0.2)) {
      client.inputEnded = true;
      this.stage.note(`end input of ${name}: ${stream.endInput()}`);
      return;
    }
    const prompt = Int32Array.from({ length: rng.between(1, 8) }, () => 500 + rng.below(40));
    const maxTokens = rng.between(1, this.setup.workload.mostTokens);
    try {
      const outcome = stream.addChunk({ prompt, maxTokens, minTokens: 0 });
      this.stage.note(`chunk of ${prompt.length} + ${maxTokens} for ${name}: ${outcome}`);
      if (outcome === 'skipped') return;
      this.stage.count(`chunk ${outcome}`);
      text.addChunk(prompt, { ...wish, maxTokens, minTokens: 0 });
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_BLOCKSTEP_UNFIT') throw error;
    }
  }

  #someone(rng: Rng): Client | undefined {
    const all = [...this.#clients.values()];
    return all[Math.max(0, all.length - 1 - rng.below(10))];
  }

  #abort(from: 'outside' | 'executor' | 'connector'): void {
    if (from === 'connector' && this.#submitting !== null && this.#abortSubmitting(this.#submitting)) return;
    const rng = this.stage.rng('aborts');
    const client = this.#someone(rng);
    if (client === undefined) return;
    const { engine } = this;
    const { stream, controller, wish } = client;
    const reason = rng.chance(0.5) ? undefined : 'enough';
    const ways: [string, unknown, () => void][] = [
      ['handle', reason, () => stream.abort(reason)],
      ['number', reason, () => engine.abort(stream.handle, reason)],
      ['id', reason, () => engine.abort(wish.id, reason)],
      ['signal', 'signal', () => controller.abort('signal')],
      ['stop', undefined, () => client.stop(reason as string | undefined, from !== 'connector')],
    ];
    const [way, why, act] = rng.pick(ways);
    this.stage.note(`abort ${client.name} by ${way}, ${from}`);
    if (way === 'stop') {
      act();
      return;
    }
    this.stage.count('aborts asked');
    for (const each of this.#clients.values()) {
      const isMeant = way === 'id' ? each.wish.id === wish.id : each === client;
      if (!isMeant || each.stream.ended) continue;
      each.asked(why);
      // From inside the connector it may come when the end is being made.
      if (from !== 'connector') this.stage.aborted(each.stream.handle);
    }
    // The id may name one that its connector is just being told of, and that has no client yet.
    if (way === 'id' && this.#submitting?.id === wish.id)
      Object.assign(this.#submitting, { asked: true, reason });
    act();
  }

  /** Aborts a request that its connector is just being told of, and that has no client yet. */
  #abortSubmitting(submitting: { id: string; asked: boolean; reason: unknown }): boolean {
    const rng = this.stage.rng('aborts of the newest');
    if (this.engine.scheduler.get(submitting.id) === undefined || rng.chance(0.5)) return false;
    const reason = rng.chance(0.5) ? undefined : 'at once';
    this.stage.note(`abort ${submitting.id}, which is being added`);
    this.stage.count('newest aborted');
    this.stage.count('aborts asked');
    if (!submitting.asked) Object.assign(submitting, { asked: true, reason });
    this.engine.abort(submitting.id, reason);
    return true;
  }

  #hold(): void {
    const rng = this.stage.rng('holds');
    const client = this.#someone(rng);
    if (client === undefined) return;
    const { handle } = client.stream;
    const kind = rng.pick(['store', 'lease', 'load'] as const);
    const owner = `job${rng.below(3)}`;
    for (const reason of ['duplicate-hold', 'stale-handle', 'after-reset']) this.stage.excused.add(reason);
    const isHeld = this.engine.hold(handle, kind, owner);
    this.stage.note(`hold ${client.name} ${kind}:${owner}: ${isHeld}`);
    if (isHeld) this.#holds.push({ handle, kind, owner });
  }

  #complete(): void {
    const rng = this.stage.rng('holds');
    if (this.#holds.length === 0) return;
    const [{ handle, kind, owner }] = this.#holds.splice(rng.below(this.#holds.length), 1);
    const isCompleted = this.engine.complete(handle, kind, owner);
    this.stage.note(`complete ${this.stage.name(handle)} ${kind}:${owner}: ${isCompleted}`);
    if (!isCompleted)
      this.stage.broke('I6', `${kind}:${owner} of ${this.stage.name(handle)} was held, and is not`);
  }

  #reset(rng: Rng): void {
    const options = { resetRunning: rng.chance(0.6), resetConnector: rng.chance(0.3) };
    const { local } = this.engine.resetPrefixCache(options);
    this.stage.note(`reset ${JSON.stringify(options)}: ${local}`);
    const isEmpty = this.engine.scheduler.core.freeBlocks === this.setup.engine.numBlocks - 1;
    if (local !== isEmpty)
      this.stage.broke('I17', `reset answered ${local}, and all blocks are free: ${isEmpty}`);
    if (!local || (this.#connector?.open.size ?? 0) > 0) return;
    // Nothing may be found of what was cached.
    while (this.#executor.compute());
    this.stage.kv.forget();
    this.stage.count('resets');
  }

  #fence(child: number | undefined): void {
    const { stage, engine } = this;
    if (this.#connector === null) return;
    stage.note(`fence ${child ?? 'all'}`);
    for (const worker of this.#workers) worker.fence(child);
    for (const { handle, load } of engine.scheduler.inspect().requests) {
      if (load !== null) stage.blame(handle, 'load');
    }
    for (const reason of ['duplicate-completion', 'stale-handle', 'unknown-completion', 'live-completion']) {
      stage.excused.add(reason);
    }
    stage.count('fenced', engine.fenceTransfers(child));
  }

  /** No faults and no new work from here on: within a bound everything is over. */
  async #drain(): Promise<void> {
    const { stage, engine } = this;
    stage.isCalm = true;
    this.stage.note('no faults and no new work any more');
    let tokens = 0;
    for (const { stream, wish } of this.#clients.values()) {
      if (!stream.ended) tokens += 2 * (this.setup.engine.maxModelLen ?? 0) + wish.prompt.length;
    }
    const bound = 200 + 4 * tokens;
    engine.resume();
    this.#pauseMode = 'none';
    while (this.#holds.length > 0) this.#complete();
    for (const client of this.#clients.values()) {
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
      // Nobody reports what a connector or a worker that failed was told: whoever runs it fences it.
      if (round % 20 === 19 && this.#workers.every(({ isIdle }) => isIdle)) this.#fence(undefined);
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
  }

  #isDone(): boolean {
    const { scheduler, streams, abortsQueued } = this.engine.stats();
    const isQuiet = this.#workers.every(({ isIdle }) => isIdle) && (this.#connector?.isIdle ?? true);
    const left = scheduler.numQuarantined + streams + abortsQueued + this.#executor.numWaiting;
    return isQuiet && left === 0 && !this.engine.hasWork();
  }

  /** Every worker was told of every request that ended. */
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
    for (const client of this.#clients.values()) {
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

  /** The log failed: every stream fails with a code, health says so, and nothing hangs. */
  async #endBroken(): Promise<void> {
    const { stage, engine } = this;
    if (engine.health().state === 'disposed') return;
    stage.isOver = true;
    for (const client of this.#clients.values()) client.read();
    for (let i = 0; i < 20; i++) await settled();
    const { state, healthy } = engine.health();
    if (state !== 'broken' || healthy)
      throw new Violation('I13', `health says ${state} when the log has failed`);
    stage.count('broken');
  }

  #tally(): void {
    const { anomalies, finished: _, outstanding: __, ...stats } = this.engine.stats().scheduler;
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

/** When all promises that can settle by themselves have. */
async function settled(): Promise<void> {
  for (let i = 0; i < 8; i++) await Promise.resolve();
}
