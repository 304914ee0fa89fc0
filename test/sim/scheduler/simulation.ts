import type { Match } from '../../../src/scheduler/connector/connector.js';
import type { Account } from '../audit/account.js';
import { type Asked, type ReportFacts, type TransferFacts, Violation } from '../audit/facts.js';
import type { Held } from '../audit/turns.js';
import { Dice } from '../shared/dice.js';
import { drawHold, drawPrompt, EventDice, type Hold } from '../shared/draws.js';
import type { Rng } from '../shared/rng.js';
import type { Tally } from '../shared/run.js';
import { END_TOKEN } from '../shared/text.js';
import { type Decisions, Refusal } from './connector.js';
import { SimGrammar } from './grammar.js';
import type { Lost } from './memory.js';
import { EVENTS, type Event, type Fault, type Setup } from './setup.js';
import { World } from './world.js';

const KEPT_REPORTS = 64;

/**
 * One run, everything in it decided by its setup and so by its seed. First so many events with
 * faults, then none and no new work. Within a stated number of rounds everything must be over and
 * nothing be left.
 */
export class Simulation {
  readonly world: World;
  readonly setup: Setup;
  /** Events so far. */
  step = 0;
  readonly #events: EventDice<Event>;
  readonly #holds: Hold[] = [];
  /** Reports that were delivered, to be repeated. */
  readonly #past: { kind: 'received' | 'sent' | 'failed'; report: ReportFacts }[] = [];
  /** Incarnations that were offered a load, and how often each was asked about. */
  readonly #offered = new Set<number>();
  readonly #asked = new Map<number, number>();
  /** Entries of plans that decoded in step, and plans that were repeated. */
  readonly #steady = { steadyEntries: 0, repeatedSteps: 0 };
  readonly #chance: Dice<Setup, Fault>;

  constructor(setup: Setup) {
    this.setup = setup;
    this.#chance = new Dice(setup, '');
    const { scheduler, connector, borrower, workload } = setup;
    this.#events = new EventDice(EVENTS, workload.weights);
    const isNamed = () => !this.#chance.strikes('blockUnnamed', this.#chance.rng('fabric'));
    const hooks = { delay: () => this.#delay(), isNamed, isStamped: workload.isStamped };
    const chance = { rng: this.#chance.rng('borrowing'), isCalm: () => this.#chance.isCalm };
    this.world = new World({
      ...{ scheduler, connector, decisions: this.#decisions(), hooks },
      borrower: borrower === null ? null : { shape: borrower, ...chance },
      tells: setup.tells,
    });
    this.world.timing = ({ numBlocks, direction }) => {
      const rng = this.#chance.rng('fabric');
      const startAt = this.world.now + rng.below(workload.slowest);
      const bad = new Set<number>();
      if (direction === 'load' && this.#chance.strikes('loadFails', rng)) {
        for (let index = 0; index < numBlocks; index++) if (rng.chance(0.4)) bad.add(index);
      }
      const fails = direction === 'load' && this.#chance.strikes('wholeLoadFails', rng);
      const verdicts = this.#chance.rng('verdicts on loads');
      const isEarly = !this.#chance.isCalm && verdicts.chance(0.3);
      const verdict = { isEarly, isNamed: !this.#chance.strikes('blockUnnamed', verdicts) };
      return { startAt, endAt: startAt + rng.below(workload.slowest), bad, fails, verdict };
    };
  }

  /** Runs both phases. @throws Violation */
  run(numEvents: number): void {
    while (this.step < numEvents) {
      this.step++;
      this.#event();
    }
    this.#drain();
  }

  get journal(): readonly string[] {
    return this.world.journal;
  }

  dispose(): void {
    this.world.dispose();
  }

  get tally(): Tally {
    const { anomalies, finished, ...stats } = this.world.scheduler.stats();
    const all: Tally = { ...this.#chance.tally, ...this.#steady };
    for (const [name, value] of Object.entries({ ...stats, ...anomalies, ...finished })) {
      if (typeof value === 'number') all[name] = value;
    }
    return all;
  }

  #event(): void {
    const { world } = this;
    const rng = this.#chance.rng('events');
    world.now += rng.below(6);
    world.progress();
    this.#doEvent(this.#events.draw(rng));
  }

  #doEvent(event: Event): void {
    const { world } = this;
    const rng = this.#chance.rng('events');
    switch (event) {
      case 'add':
        this.#add();
        break;
      case 'schedule':
        this.#schedule();
        break;
      case 'execute':
        world.execute();
        break;
      case 'update':
        this.#update();
        break;
      case 'report':
        this.#report();
        break;
      case 'progress':
        if (world.connector !== null) world.connector.pendingWork = rng.chance(0.3);
        world.now += rng.below(40);
        world.progress();
        break;
      case 'abort':
        world.abort(this.#someKeys());
        break;
      case 'chunk':
        this.#chunk();
        break;
      case 'endSession':
        world.endSession(this.#someSession());
        break;
      case 'hold':
        this.#hold();
        break;
      case 'complete':
        this.#complete();
        break;
      case 'reset':
        if (world.connector !== null) world.connector.resetAnswer = rng.pick([undefined, true, false]);
        world.reset({ resetRunning: rng.chance(0.5), resetConnector: rng.chance(0.3) });
        break;
      case 'pause':
        world.pause(rng.chance(0.5) ? 'new' : 'all');
        break;
      case 'resume':
        world.pause('none');
        break;
      case 'fence':
        this.#fence();
        break;
      case 'abortAll':
        world.abort('all');
        break;
      case 'zombie':
        this.#sweep(rng);
        break;
    }
  }

  #add(): void {
    const rng = this.#chance.rng('clients');
    const { workload } = this.setup;
    const { mostTokens, numIds, sessions, adapters, grammars } = workload;
    const prompt = drawPrompt(workload, rng);
    const maxTokens = rng.between(1, mostTokens);
    const asked: Asked = {
      id: `r${rng.below(numIds)}`,
      prompt,
      salt: rng.chance(0.1) ? 1 : 0,
      adapter: rng.chance(adapters) ? `lora${rng.below(3)}` : '',
      hasGrammar: rng.chance(grammars),
      isSession: rng.chance(sessions),
      maxTokens,
      minTokens: rng.below(maxTokens + 1),
      eosTokenId: rng.chance(0.5) ? END_TOKEN : -1,
      stopTokenIds: rng.chance(0.2) ? [END_TOKEN] : [],
    };
    const timeouts = this.#chance.rng('timeouts of requests');
    if (timeouts.chance(workload.timeouts)) asked.timeoutMs = timeouts.between(20, 300);
    // No draw of its own, so that every seed has the life that it had.
    if (asked.isSession && !asked.hasGrammar && maxTokens % 3 === 0) asked.prompt = new Int32Array(0);
    this.world.add(asked, { priority: rng.below(3) }, asked.hasGrammar ? this.#grammar() : null);
  }

  #grammar(): SimGrammar {
    const rng = this.#chance.rng('clients');
    return new SimGrammar({
      notReady: rng.below(5),
      takes: rng.chance(0.2) ? rng.below(8) : Number.MAX_SAFE_INTEGER,
      allows: rng.below(4),
      throwsAt: rng.chance(0.1) ? rng.between(1, 12) : 0,
    });
  }

  #chunk(): void {
    const rng = this.#chance.rng('clients');
    const key = this.#someSession();
    const length = rng.between(1, 6);
    const from = 700 + 10 * rng.below(3);
    const maxTokens = rng.between(1, this.setup.workload.mostTokens);
    const { live, accounts } = this.world.auditor.ledger;
    const asked = (typeof key === 'string' ? live.get(key) : accounts.get(key))?.asked;
    const { eosTokenId = -1, stopTokenIds = [] } = asked ?? {};
    const stops = { maxTokens, minTokens: rng.below(maxTokens + 1), eosTokenId, stopTokenIds };
    this.world.chunk(key, { prompt: Int32Array.from({ length }, (_, i) => from + i), stops });
  }

  /** Mostly a session that lives, by id or handle. */
  #someSession(): string | number {
    const rng = this.#chance.rng('clients');
    const live = [...this.world.auditor.ledger.live.values()];
    const sessions = live.filter(({ conversation }) => conversation !== null);
    if (sessions.length === 0 || rng.chance(0.1)) return this.#someKeys()[0];
    const { handle, asked } = rng.pick(sessions);
    return rng.chance(0.5) ? handle : asked.id;
  }

  #schedule(): void {
    const { world } = this;
    if (world.executor.steps.length >= world.scheduler.config.pipelineDepth) {
      this.#update();
      return;
    }
    const rng = this.#chance.rng('executor');
    const whole = this.#chance.strikes('stepFails', rng);
    const plan = world.schedule(
      () => whole || this.#chance.strikes('rowFails', rng),
      (holdings) => this.#losses(holdings),
    );
    this.#steady.steadyEntries += plan.numSteady;
    if (plan.repeats > 0) this.#steady.repeatedSteps++;
  }

  /** Blocks that the device loses with a step. */
  #losses(holdings: readonly Held[]): Lost[] {
    const rng = this.#chance.rng('losses');
    if (!this.#chance.strikes('blockLost', rng)) return [];
    return Array.from({ length: rng.between(1, 2) }, () => {
      const { blocks, turns } = rng.pick(holdings);
      const at = rng.below(blocks.length);
      return { block: blocks[at], turn: turns[at] };
    });
  }

  #update(): void {
    const facts = this.#collect(6);
    if (!this.world.update(facts)) this.world.report(facts);
  }

  #report(): void {
    this.#foreign();
    const facts = this.#collect(3);
    this.world.report(facts);
  }

  /** Reports that have arrived, in any order. */
  #collect(most: number): TransferFacts {
    const rng = this.#chance.rng('fabric');
    const { world } = this;
    const facts = world.fabric.collect(world.now, rng.below(most + 1), (due) => rng.shuffle(due));
    for (const kind of ['received', 'sent', 'failed'] as const) {
      for (const report of facts[kind]) {
        this.#past.push({ kind, report });
        if (this.#past.length > KEPT_REPORTS) this.#past.shift();
        if (this.#chance.strikes('duplicate', rng))
          world.fabric.post(kind, world.now + rng.below(60), report, 0, false, true);
      }
    }
    return facts;
  }

  /** Puts reports on their way that a correct peer would not send. */
  #foreign(): void {
    const { fabric, now, connector, auditor, scheduler } = this.world;
    if (connector === null) return;
    const rng = this.#chance.rng('fabric');
    const { reporters } = connector;
    const kinds = ['received', 'sent'] as const;
    const anyone = (): ReportFacts => ({
      handle: this.#anyHandle(rng) ?? 1,
      child: rng.below(reporters.length + (rng.chance(0.2) ? 1 : 0)),
      rank: rng.below(rng.chance(0.2) ? 4 : reporters[0].length),
    });
    if (this.#past.length > 0 && this.#chance.strikes('stale', rng)) {
      const { kind, report } = rng.pick(this.#past);
      fabric.post(kind, now, report, 0, false, true);
    }
    if (this.#chance.strikes('unknown', rng)) {
      fabric.post(rng.pick(kinds), now, {
        ...anyone(),
        handle: rng.below(2 ** 30) * 2 ** 20 + rng.below(40),
      });
    }
    if (this.#chance.strikes('wrongOwner', rng)) {
      const report = anyone();
      const uses = auditor.ledger.accounts.get(report.handle)?.uses ?? new Set();
      const key = `${report.child}:${report.rank}`;
      // A true report is no fault.
      if (!uses.has(`load:${key}`) && !uses.has(`store:${key}`))
        fabric.post(rng.pick(kinds), now, report, 0, false, true);
    }
    if (this.#chance.strikes('foreignFailure', rng)) {
      fabric.post('failed', now, anyone(), 0, false, true);
    }
    if (this.#chance.strikes('foreignBlock', rng)) {
      const block = rng.pick([
        0,
        -1,
        scheduler.config.numBlocks,
        2 ** 31,
        rng.below(scheduler.config.numBlocks),
      ]);
      fabric.post('invalid', now, anyone(), block, rng.chance(0.7));
    }
  }

  #anyHandle(rng: Rng): number | undefined {
    const { accounts, live, held } = this.world.auditor.ledger;
    if (accounts.size === 0) return undefined;
    const all = [...live.values(), ...held];
    const near: Account[] = rng.chance(0.5) ? all.filter(({ uses }) => uses.size > 0) : all;
    if (near.length > 0) return rng.pick(near).handle;
    const ever = [...accounts.keys()];
    return ever[Math.max(0, ever.length - 1 - rng.below(20))];
  }

  #someKeys(): (string | number)[] {
    const rng = this.#chance.rng('clients');
    return Array.from({ length: 1 + rng.below(2) }, () => {
      if (rng.chance(0.5)) return `r${rng.below(this.setup.workload.numIds)}`;
      return this.#anyHandle(rng) ?? 5;
    });
  }

  /** A request that has ended stands among the running, and somebody is aborted: it is swept out. */
  #sweep(rng: Rng): void {
    const live = [...this.world.auditor.ledger.live.values()];
    if (live.length === 0 || this.world.borrowing?.plantZombie() !== true) return;
    this.world.abort([rng.pick(live).handle]);
  }

  #hold(): void {
    const rng = this.#chance.rng('clients');
    const handle = this.#anyHandle(rng);
    if (handle === undefined) return;
    const loaded = this.#chance.rng('holds of loads that are done').chance(0.3)
      ? this.#anyLoaded()
      : undefined;
    const hold: Hold =
      loaded === undefined ? drawHold(handle, rng) : { handle: loaded, kind: 'load', owner: 'once more' };
    if (this.world.hold(hold.handle, hold.kind, hold.owner)) this.#holds.push(hold);
  }

  /** A request whose load is done, and that was not admitted yet. */
  #anyLoaded(): number | undefined {
    const loaded = this.world.scheduler
      .inspect()
      .requests.filter(({ load, outstanding }) => load !== null && outstanding?.hasAny('load') !== true);
    return loaded.length === 0
      ? undefined
      : this.#chance.rng('holds of loads that are done').pick(loaded).handle;
  }

  #complete(): void {
    const rng = this.#chance.rng('clients');
    if (this.#holds.length === 0) return;
    const at = rng.below(this.#holds.length);
    const { handle, kind, owner } = this.#holds[at];
    this.world.complete(handle, kind, owner);
    if (!rng.chance(0.1)) this.#holds.splice(at, 1);
  }

  #fence(): void {
    const { connector } = this.world;
    const rng = this.#chance.rng('fabric');
    if (connector === null || !this.#chance.strikes('fence', rng)) return;
    this.world.fence(rng.chance(0.5) ? undefined : rng.below(connector.reporters.length));
  }

  #delay(): number {
    const rng = this.#chance.rng('fabric');
    if (this.#chance.strikes('lost', rng)) return Number.MAX_SAFE_INTEGER / 4;
    return this.#chance.strikes('late', rng) ? rng.below(400) : rng.below(8);
  }

  #decisions(): Decisions {
    const rng = this.#chance.rng('connector');
    const { workload, connector } = this.setup;
    const numChildren = connector?.reporters.length ?? 0;
    return {
      match: (handle, numTokens, numLocal) => this.#match(handle, numTokens, numLocal, numChildren),
      finished: (_handle, reason, numBlocks) => {
        if (numBlocks === 0 && !rng.chance(0.05)) return null;
        if (!rng.chance(reason === 'abort' ? workload.stores / 3 : workload.stores)) return null;
        const children = Array.from({ length: numChildren }, (_, child) => child);
        if (rng.chance(0.5)) return children;
        const child = rng.below(numChildren);
        // A block that is named twice counts once.
        return rng.chance(0.4) ? [child, child] : [child];
      },
      delivers: () => rng.chance(workload.delivers),
      mustDeliver: workload.delivers === 1 && this.setup.faults.connectorThrows === 0,
      called: (method) => {
        if (this.#chance.strikes('abortInside', rng)) this.world.abortInside(this.#someKeys());
        if (this.#chance.strikes('connectorThrows', rng)) throw new Refusal(`planted in ${method}`);
      },
    };
  }

  #match(handle: number, numTokens: number, numLocal: number, numChildren: number): Match {
    const rng = this.#chance.rng('connector');
    const { workload } = this.setup;
    const room = numTokens - numLocal;
    if (this.#chance.strikes('connectorNonsense', rng))
      return { numTokens: room + 1 + rng.below(9), async: rng.chance(0.5) };
    const times = this.#asked.get(handle) ?? 0;
    this.#asked.set(handle, times + 1);
    if (times < 6 && rng.chance(workload.asksLater)) return { numTokens: null, async: false };
    const again = this.#offered.has(handle) && !workload.reloads;
    if (again || room < 1 || !rng.chance(workload.loads)) return { numTokens: 0, async: false };
    const { blockSize } = this.world.scheduler.config;
    const whole = Math.floor(room / blockSize) * blockSize;
    const most = rng.chance(0.3) ? room : whole;
    const numOffered = rng.chance(0.5) ? most : rng.below(Math.floor(most / blockSize) + 1) * blockSize;
    if (numOffered === 0) return { numTokens: 0, async: false };
    const isSync = rng.chance(workload.syncLoads);
    this.#offered.add(handle);
    return { numTokens: numOffered, async: !isSync, child: rng.below(numChildren) };
  }

  /** No faults and no new work from here on. */
  #drain(): void {
    const { world } = this;
    this.#chance.isCalm = true;
    const { live, held } = world.auditor.ledger;
    let tokens = 0;
    for (const { numTokens, stops, conversation } of live.values()) {
      tokens += numTokens + stops.maxTokens;
      for (const { prompt, stops } of conversation?.queue ?? []) tokens += prompt.length + stops.maxTokens;
    }
    const bound = 100 + 8 * tokens + 20 * held.size;
    world.pause('none');
    for (const { handle, conversation } of [...live.values()]) {
      if (conversation !== null && !conversation.hasEnded) world.endSession(handle);
    }
    if (world.connector !== null) world.connector.pendingWork = false;
    while (this.#holds.length > 0) {
      const { handle, kind, owner } = this.#holds.pop() as Hold;
      world.complete(handle, kind, owner);
    }
    for (let round = 0; ; round++) {
      world.now += 10;
      world.fabric.calm(world.now);
      world.progress();
      if (world.executor.steps.length < world.scheduler.config.pipelineDepth) world.schedule();
      const facts = world.fabric.collect(world.now, 100, () => {});
      if (!world.update(facts)) world.report(facts);
      // Nobody reports the orders of a connector that failed, so the simulation fences it.
      if (world.fabric.isIdle && held.size > 0) world.fence();
      const stats = world.scheduler.stats();
      const isOver = !world.scheduler.hasWork() && world.fabric.isIdle && stats.numQuarantined === 0;
      if (isOver && world.executor.steps.length === 0) break;
      if (round < bound) continue;
      throw new Violation('I10', `not over after ${round} rounds without faults: ${JSON.stringify(stats)}`);
    }
    world.end();
  }
}
