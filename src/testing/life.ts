// One run of the conformance suite: clients and faults, then calm; at the end nothing may be left.
import { Random } from '../base/random.js';
import { Clients } from './clients.js';
import type { Scene } from './scene.js';
import { Station, type Surroundings } from './station.js';
import { Diary, Trouble } from './watch/trouble.js';
import type { MakeConnector } from './world.js';

/** The result of a run. */
export interface RunFacts {
  /** Tokens that the connector was ordered to load. */
  readonly numLoadedTokens: number;
  /** The connector refused the engine, which is allowed. */
  readonly isRefused: boolean;
}

/** A run must end within this many rounds after its last fault. */
const MOST_CALM_ROUNDS = 2000;
const MOST_ROUNDS = 20_000;

/**
 * One run. Clients use one or several engines with the connector, with faults at random. Then no
 * fault and no client comes any more, and everything must end.
 */
export class Life {
  readonly diary = new Diary();
  readonly #around: Surroundings;
  readonly #make: MakeConnector;
  readonly #clients: Clients;
  readonly #stations: Station[] = [];
  /** Killed engines. They are disposed at the end, when nobody can notice it. */
  readonly #dead: Station[] = [];
  readonly #incarnations: number[] = [];
  /** The place of the failure, in words. */
  place = '';
  #isCalm = false;
  #trouble: string | null = null;
  #nowMs = 0;
  /** Rounds until which each engine is paused. */
  readonly #pausedUntil = new Map<Station, number>();

  constructor(scene: Scene, seed: number, make: MakeConnector) {
    this.#make = make;
    this.#around = {
      ...{ scene, seed, diary: this.diary, random: new Random(seed), shared: new Map() },
      ...{ depth: (1 + (seed % 3)) as 1 | 2 | 3, numRanks: 1 + (Math.floor(seed / 3) % 2) },
      now: () => this.#nowMs,
      isCalm: () => this.#isCalm,
      broke: (what) => {
        this.#trouble ??= what;
      },
    };
    this.#clients = new Clients(this.#around);
  }

  #whereItStands(): string {
    const { depth, numRanks, scene } = this.#around;
    const step = this.#stations.map(({ engine }) => {
      try {
        return engine.stats().scheduler.step;
      } catch {
        return '?';
      }
    });
    return `round ${this.diary.round}, step ${step}; pipelineDepth ${depth}, ${numRanks} ranks, ${scene.numEngines} engines`;
  }

  /** Makes the run. @throws Trouble, or any error that the connector has caused */
  async run(): Promise<RunFacts> {
    try {
      return await this.#live();
    } catch (error) {
      this.place = this.#whereItStands();
      // The connector's first mistake explains the later error of the engine.
      throw this.#trouble === null ? error : new Trouble(this.#trouble, { cause: error });
    } finally {
      await this.#close();
    }
  }

  async #live(): Promise<RunFacts> {
    const { scene, random } = this.#around;
    for (let i = 0; i < scene.numEngines; i++)
      if (!(await this.#open(i))) return { numLoadedTokens: 0, isRefused: true };
    while (this.#clients.numToCome > 0) {
      if (random.next() * 100 < scene.chances.submit) this.#clients.come(this.#stations);
      await this.#hostileEvents();
      await this.#round();
      if (this.diary.round > MOST_ROUNDS)
        throw new Trouble(`the clients must end within ${MOST_ROUNDS} rounds`);
    }
    if (scene.endsEarly) {
      this.#endEarly();
      await this.#clients.judge();
      return { numLoadedTokens: 1, isRefused: false };
    }
    await this.#settle();
    const facts = { numLoadedTokens: 0, isRefused: false };
    for (const station of this.#stations) {
      facts.numLoadedTokens += station.watch.numLoadedTokens;
      this.#checkRest(station);
    }
    await this.#clients.judge();
    this.#throwTrouble();
    for (const { engine } of this.#stations) engine.dispose();
    this.#throwTrouble();
    return facts;
  }

  /**
   * @returns false if the connector refuses an engine without a prefix cache, or with KV cache
   * groups, which is allowed
   */
  async #open(index: number): Promise<boolean> {
    const incarnation = this.#incarnations[index] ?? 0;
    this.#incarnations[index] = incarnation + 1;
    try {
      this.#stations[index] = await Station.open(this.#around, this.#make, index, incarnation);
      return true;
    } catch (error) {
      const { enablePrefixCaching } = this.#around.scene;
      const said = error instanceof Error ? error.message : '';
      if (!enablePrefixCaching && said.includes('enablePrefixCaching')) return false;
      if (/kvGroups|numGroups/.test(said)) return false;
      throw error;
    }
  }

  /** Actions of operators, and breakdowns. */
  async #hostileEvents(): Promise<void> {
    const { random, scene } = this.#around;
    const { reset, pause, fence, kill } = scene.chances;
    for (const [index, station] of this.#stations.entries()) {
      const { engine, under, watch } = station;
      const draws = (percent: number) => random.next() * 100 < percent;
      if (draws(reset)) {
        const result = engine.resetPrefixCache({ resetConnector: draws(70), resetRunning: draws(50) });
        this.diary.note(`reset: ${JSON.stringify(result)}`);
      }
      if (draws(pause) && !this.#pausedUntil.has(station)) {
        engine.pause(draws(50) ? 'new' : 'all');
        this.#pausedUntil.set(station, this.diary.round + random.below(30));
        this.diary.note('paused');
      }
      // A fence shows most during a load.
      if (fence > 0 && under.fence !== undefined && draws(watch.open.length > 0 ? 5 * fence : fence)) {
        this.diary.note('fenced');
        station.fence();
      }
      if (under.kill !== undefined && draws(kill)) {
        this.diary.note(`engine ${index} is killed`);
        under.kill();
        this.#clients.lose(station);
        this.#dead.push(station);
        await this.#open(index);
      }
    }
  }

  async #round(): Promise<void> {
    const { random, scene } = this.#around;
    this.diary.round++;
    this.#nowMs += random.below(scene.msPerRound + 1);
    this.#clients.act(this.#isCalm);
    for (const station of this.#stations) {
      const until = this.#pausedUntil.get(station);
      if (until !== undefined && (this.#isCalm || this.diary.round >= until)) {
        station.engine.resume();
        this.#pausedUntil.delete(station);
      }
      if (this.#isCalm || random.next() * 100 >= scene.chances.idle) station.engine.step();
      this.#throwTrouble();
      station.advance();
      station.check();
      if (this.diary.round % 16 === 0) station.engine.verify();
    }
    await turn();
    this.#throwTrouble();
  }

  /** Disposes the engines at once. No lane may copy afterwards. */
  #endEarly(): void {
    for (const { engine, watch } of this.#stations) {
      this.diary.note(`disposed, with ${watch.jobs.size} copies under way`);
      engine.dispose();
      if (watch.jobs.size > 0)
        throw new Trouble(`a disposed engine must have no copies under way, has ${watch.jobs.size}`);
    }
    this.#throwTrouble();
  }

  /** Without further faults, everything ends. */
  async #settle(): Promise<void> {
    this.#isCalm = true;
    for (const { under } of this.#stations) under.calm?.();
    this.diary.note('calm');
    for (let rounds = 0; !this.#isOver(rounds); rounds++) {
      if (rounds === MOST_CALM_ROUNDS)
        throw new Trouble(
          `everything must end within ${MOST_CALM_ROUNDS} calm rounds. Still open:\n${this.#whatIsOpen()}`,
        );
      await this.#round();
      // Gives connectors with their own threads, files and sockets time.
      if (rounds > 40) await new Promise((resolve) => setTimeout(resolve, rounds > 400 ? 1 : 0));
    }
  }

  /**
   * Whether everything is over. Lost reports never come, so the operator ends their requests once
   * nothing is under way.
   */
  #isOver(rounds: number): boolean {
    const { loseReport, kill } = this.#around.scene.chances;
    const isIdle = this.#stations.every(
      ({ watch, under }) => !watch.isCopying && under.connector.hasPendingWork?.() !== true,
    );
    if (!isIdle) return false;
    const isDone = this.#clients.open.length === 0 && this.#stations.every(({ engine }) => !engine.hasWork());
    // Quarantined blocks come back by late reports, which the requests do not wait for.
    const isFree = this.#stations.every(({ engine }) => engine.stats().scheduler.numQuarantined === 0);
    if (loseReport + kill === 0) return isDone && isFree;
    const isTime = isDone || (rounds > 300 && rounds % 100 === 0);
    if (isTime)
      for (const { under, engine, watch } of this.#stations) {
        under.fence?.();
        if (engine.fenceTransfers() > 0) watch.fenced();
      }
    return isDone && this.#stations.every(({ engine }) => !engine.hasWork());
  }

  #whatIsOpen(): string {
    const waits = this.#clients.open.map(({ id, station }) => `  ${id}: ${station.engine.explain(id)}`);
    const left = this.#stations.flatMap((station) => [...station.leftovers(), ...station.watch.open]);
    const first = waits.slice(0, 4);
    if (waits.length > 4) first.push(`  and ${waits.length - 4} more requests`);
    return [...first, ...left.map((what) => `  ${what}`)].join('\n');
  }

  /** Without work under way, nothing may be left, and the caches can be reset. */
  #checkRest(station: Station): void {
    const { engine, under } = station;
    engine.verify();
    const left = station.leftovers();
    if (left.length > 0)
      throw new Trouble(`nothing may be left when all requests have ended. Left:\n  ${left.join('\n  ')}`);
    const answer = engine.resetPrefixCache({ resetConnector: true });
    if (!answer.ok)
      throw new Trouble(
        `the caches must be resettable when all requests have ended, got ${JSON.stringify(answer)}`,
      );
    if (under.connector.hasPendingWork?.() === true)
      throw new Trouble('hasPendingWork() must be false after a reset, got true');
  }

  #throwTrouble(): void {
    if (this.#trouble !== null) throw new Trouble(this.#trouble);
  }

  async #close(): Promise<void> {
    for (const { engine } of [...this.#stations, ...this.#dead]) {
      try {
        engine.dispose();
      } catch {
        // A failed run has already reported its cause.
      }
    }
    for (const { under } of [...this.#stations, ...this.#dead]) await under.dispose?.();
  }
}

/** Gives every promise of the engine its turn. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
