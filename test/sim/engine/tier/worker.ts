// The worker side of a tier on one rank.
import type {
  BlockReuse,
  ConnectorOutput,
  StoreStep,
  WorkerConnector,
  WorkerStep,
} from '../../../../src/scheduler/connector/connector.js';
import { GARBAGE } from '../../shared/kv/kv-places.js';
import type { Rng } from '../../shared/rng.js';
import type { SimExecutor } from '../executor.js';
import type { Stage } from '../stage.js';
import type { SimConnector } from './connector.js';
import { Reports } from './reports.js';
import { type LoadPlan, RecentLoads, type StorePlan, type TierMetadata } from './transfer-plans.js';

const NEVER = Number.POSITIVE_INFINITY;

/** A transfer on one rank. It touches memory in two windows, each half of its blocks. */
interface Job {
  readonly load: LoadPlan | null;
  readonly store: StorePlan | null;
  /** When each window opens; it waits for the step before, too. */
  readonly windows: [number, number];
  readonly notBefore: number;
  halves: number;
  /** Blocks of a load that do not come, by index; or the load fails as a whole. */
  readonly bad: ReadonlySet<number>;
  readonly failsWhole: boolean;
}

/** The worker side on one rank, as the contract wants it, except for the faults that are drawn. */
export class SimWorker implements WorkerConnector<TierMetadata> {
  readonly #stage: Stage;
  readonly #rank: number;
  readonly #connector: SimConnector;
  readonly #executor: SimExecutor;
  readonly #rng: Rng;
  readonly #jobs = new Set<Job>();
  /** Stores that wait until their step was executed. A hand-over waits for the last step that writes its blocks. */
  readonly #declared = new Set<StorePlan>();
  /** Requests of which a step failed. */
  readonly #failed = new Set<number>();
  /** Per request, the children that still have to report it as sent. `#told` are the requests that the worker knows to have finished. */
  readonly #owed = new Map<number, Set<number>>();
  readonly #told = new Set<number>();
  /** The number of reports that a request lost its blocks. */
  readonly #released = new Map<number, number>();
  readonly #reports: Reports;
  /** The loads that a failed call may cost. */
  readonly #recent = new RecentLoads();
  #settled = -1;

  constructor(stage: Stage, rank: number, connector: SimConnector, executor: SimExecutor) {
    this.#stage = stage;
    this.#rank = rank;
    this.#connector = connector;
    this.#executor = executor;
    this.#rng = stage.rng(`worker ${rank}`);
    this.#reports = new Reports(stage, connector, this.#rng);
  }

  get told(): ReadonlySet<number> {
    return this.#told;
  }

  /** Whether nothing is left to do or to report. */
  get isIdle(): boolean {
    return this.#jobs.size + this.#declared.size + this.#reports.length === 0;
  }

  handlePreemptions(metadata: TierMetadata | undefined, { released, taken }: BlockReuse): void {
    const stage = this.#stage;
    for (const handle of released) {
      const times = (this.#released.get(handle) ?? 0) + 1;
      this.#released.set(handle, times);
      stage.count('released');
      if (times > (this.#connector.allocations.get(handle) ?? 0)) {
        stage.broke(
          'I20',
          `rank ${this.#rank} is told ${times} times that ${stage.name(handle)} lost its blocks`,
        );
      }
      for (const store of this.#declared) {
        if (store.handle !== handle) continue;
        stage.broke(
          'I7',
          `${stage.name(handle)} is released before the stores of step ${store.step} have begun`,
        );
      }
    }
    // With `own` and groups, the blocks are named that a window left while their request goes on.
    const isPinned = this.#connector.protection === 'pin';
    const isReused = ({ blocks }: StorePlan) => !isPinned && blocks.some((block) => taken.includes(block));
    for (const job of [...this.#jobs]) {
      const { store } = job;
      if (store !== null && (released.includes(store.handle) || isReused(store))) this.#finish(job);
    }
    if (!stage.strikes('workerThrows', this.#rng)) return;
    if (metadata !== undefined) this.#lose(metadata);
    throw new Error('planted behind handlePreemptions');
  }

  startLoads(metadata: TierMetadata | undefined, { step, notBefore }: WorkerStep): unknown {
    if (metadata === undefined) return;
    const { loads, stores, handOvers } = metadata;
    this.#recent.add(step, loads);
    const fails = this.#stage.strikes('workerThrows', this.#rng);
    if (fails && this.#rng.chance(0.5)) {
      this.#lose(metadata);
      throw new Error('planted before startLoads');
    }
    if (fails) for (const { handle } of loads) this.#stage.blame(handle, 'load');
    for (const store of stores) this.#declare(store);
    for (const store of handOvers) {
      this.#declare(store);
      if (store.isSettled) this.#beginStore(store);
    }
    for (const load of loads) {
      if (load.async) this.#beginLoad(load, notBefore);
      else this.#loadNow(load);
    }
    if (!fails) return undefined;
    if (this.#rng.chance(0.5)) return Promise.reject(new Error('planted behind startLoads'));
    throw new Error('planted behind startLoads');
  }

  startStores(metadata: TierMetadata | undefined, { failed }: StoreStep): void {
    for (const handle of failed) this.#failed.add(handle);
    for (const store of this.#declared) if (store.step < 0) this.#beginHandOver(store);
    if (metadata === undefined) return;
    const fails = this.#stage.strikes('workerThrows', this.#rng);
    for (const store of metadata.stores) {
      if (!this.#declared.has(store)) continue;
      const isWrong = failed.includes(store.handle);
      if (isWrong || fails || store.isDropped) this.#dropStore(store);
      else this.#beginStore(store);
    }
    if (fails) throw new Error('planted in startStores');
  }

  onStepSettled(step: number): void {
    if (step <= this.#settled)
      this.#stage.broke('I7', `step ${step} is settled again, behind ${this.#settled}`);
    this.#settled = step;
    this.advance();
  }

  getFinished(finished: readonly number[]): ConnectorOutput | null {
    for (const handle of finished) {
      if (this.#told.has(handle)) {
        this.#stage.broke(
          'I20',
          `rank ${this.#rank} is told twice that ${this.#stage.name(handle)} finished`,
        );
      }
      this.#told.add(handle);
      this.#paySent(handle);
    }
    const running = [...this.#jobs].flatMap(({ load }) => (load === null ? [] : [load]));
    return this.#reports.deliver(running, this.#recent);
  }

  /** The windows that are open by now. */
  advance(): void {
    const { now, isOver } = this.#stage;
    if (isOver) return;
    for (const job of [...this.#jobs]) {
      while (this.#jobs.has(job) && job.notBefore <= this.#settled && this.#isOpen(job, now))
        this.#window(job);
    }
  }

  /**
   * The engine of the transfers ends all transfers that it has begun, and all that it knows of.
   * @returns whether there was any
   */
  fence(child: number | undefined): void {
    const isMeant = (plan: { child: number }) => child === undefined || plan.child === child;
    for (const job of [...this.#jobs]) {
      if (!isMeant(job.load ?? (job.store as StorePlan))) continue;
      this.#jobs.delete(job);
      if (job.store !== null) this.#dropStore(job.store);
    }
    for (const store of this.#declared) if (isMeant(store)) this.#dropStore(store);
    this.#reports.fence(isMeant);
  }

  /** Nothing is lost or late any more. */
  calm(): void {
    this.#reports.calm();
  }

  #isOpen({ windows, halves }: Job, now: number): boolean {
    return this.#stage.isCalm || windows[halves] <= now;
  }

  #declare(store: StorePlan): void {
    this.#declared.add(store);
    if (this.#connector.protection !== 'own') return;
    const owed = this.#owed.get(store.handle) ?? new Set();
    this.#owed.set(store.handle, owed.add(store.child));
  }

  #windows(): [number, number] {
    const { now, setup } = this.#stage;
    const slowest = setup.tier?.slowest ?? 1;
    const first = now + this.#rng.below(slowest);
    if (this.#stage.strikes('lost', this.#rng))
      return this.#rng.chance(0.5) ? [first, NEVER] : [NEVER, NEVER];
    return [first, first + this.#rng.below(slowest)];
  }

  /** A hand-over can be read when the steps that wrote it were updated, and none of them left it wrong. */
  #beginHandOver(store: StorePlan): void {
    if (this.#failed.has(store.handle) || store.isDropped) this.#dropStore(store);
    else if (store.readableFrom <= this.#settled) this.#beginStore(store);
  }

  #beginStore(store: StorePlan): void {
    this.#declared.delete(store);
    const rest = { load: null, halves: 0, bad: new Set<number>(), failsWhole: false };
    this.#jobs.add({ store, windows: this.#windows(), notBefore: -1, ...rest });
  }

  #beginLoad(load: LoadPlan, notBefore: number): void {
    const { failsWhole, bad } = this.#drawFailure(load);
    this.#jobs.add({ load, store: null, windows: this.#windows(), notBefore, halves: 0, failsWhole, bad });
  }

  #drawFailure(load: LoadPlan): { failsWhole: boolean; bad: Set<number> } {
    const bad = new Set<number>();
    if (!this.#stage.strikes('loadFails', this.#rng)) return { failsWhole: false, bad };
    this.#stage.blame(load.handle, 'load');
    // A worker that reports a block cannot know that its request has lost it meanwhile.
    this.#stage.excused.add('reassigned-block');
    load.blocks.forEach((_, index) => {
      if (this.#rng.chance(0.5)) bad.add(index);
    });
    return { failsWhole: bad.size === 0 || this.#rng.chance(0.4), bad };
  }

  /** A load that the step itself reads: it is there when this returns, or its verdict comes with the step. */
  #loadNow(load: LoadPlan): void {
    const stage = this.#stage;
    if (this.#executor.isBehind(load.step)) {
      stage.broke(
        'I7',
        `${stage.name(load.handle)} loads for step ${load.step}, and the steps before it still run`,
      );
    }
    const failure = this.#drawFailure(load);
    const job: Job = { load, store: null, windows: [0, 0], notBefore: -1, halves: 0, ...failure };
    this.#transfer(job, 0, load.blocks.length);
    this.#reports.loaded(load, failure.bad, failure.failsWhole, true);
  }

  /** Both windows, or what is left of them, now. */
  #finish(job: Job): void {
    while (this.#jobs.has(job)) this.#window(job);
  }

  #window(job: Job): void {
    const { blocks } = (job.load ?? job.store) as LoadPlan | StorePlan;
    const middle = Math.ceil(blocks.length / 2);
    const [from, to] = job.halves === 0 ? [0, middle] : [middle, blocks.length];
    this.#transfer(job, from, to);
    if (++job.halves < 2) return;
    this.#jobs.delete(job);
    if (job.store !== null) this.#endStore(job.store);
    else {
      this.#checkLoaded(job);
      if (job.load !== null) this.#reports.loaded(job.load, job.bad, job.failsWhole, false);
    }
  }

  #transfer({ load, store, bad, failsWhole }: Job, from: number, to: number): void {
    const stage = this.#stage;
    const { kv } = stage;
    const held = load === null ? [] : stage.heldBy(load.handle);
    for (let i = from; i < to; i++) {
      if (load !== null) {
        const block = load.blocks[i];
        if (!held.includes(block) && (load.async || stage.isTakenSince(block, load.step))) {
          stage.broke('I7', `${stage.name(load.handle)} loads into block ${block}, which it does not hold`);
        }
        this.#checkFlushed(load, block);
        if (!bad.has(i)) kv.write(this.#rank, block, load.sources[i][this.#rank]);
        else if (failsWhole)
          kv.write(
            this.#rank,
            block,
            load.sources[i][this.#rank].map(() => GARBAGE),
          );
      } else if (store !== null && !store.isDropped) {
        const contents = kv.read(this.#rank, store.blocks[i], store.right[i].length);
        store.read[i][this.#rank] = contents;
        const at = contents.findIndex((content, p) => content !== store.right[i][p]);
        if (at < 0) continue;
        const what = `${stage.name(store.handle)} stores block ${store.blocks[i]} of step ${store.step}`;
        stage.broke('I7', `${what}, which has something else from its offset ${at} on (rank ${this.#rank})`);
      }
    }
  }

  /** A load may not overwrite a block that is still to be stored. */
  #checkFlushed({ handle }: LoadPlan, block: number): void {
    for (const { store, halves } of this.#jobs) {
      if (store === null || store.isDropped) continue;
      const { blocks, handle: other } = store;
      if (blocks.indexOf(block, halves === 0 ? 0 : Math.ceil(blocks.length / 2)) < 0) continue;
      const whose = `which is still to be stored for ${this.#stage.name(other)}`;
      this.#stage.broke('I7', `${this.#stage.name(handle)} loads into block ${block}, ${whose}`);
    }
  }

  /** At the end of a load its blocks must still hold what it wrote. */
  #checkLoaded({ load, bad }: Job): void {
    if (load === null) return;
    load.blocks.forEach((block, i) => {
      if (bad.has(i)) return;
      const source = load.sources[i][this.#rank];
      const found = this.#stage.kv.read(this.#rank, block, source.length);
      if (found.every((content, p) => content === source[p])) return;
      this.#stage.broke(
        'I7',
        `block ${block} was overwritten while it was loaded for ${this.#stage.name(load.handle)}`,
      );
    });
  }

  #dropStore(store: StorePlan): void {
    this.#connector.drop(store);
    this.#declared.delete(store);
    this.#endStore(store);
  }

  #endStore(store: StorePlan): void {
    this.#connector.ended(store);
    if (this.#told.has(store.handle)) this.#paySent(store.handle);
  }

  /** Reports a request that has finished as sent, for each child that has nothing of it left. */
  #paySent(handle: number): void {
    const isOf = (child: number) => (store: StorePlan | null) =>
      store?.handle === handle && store.child === child;
    for (const child of this.#owed.get(handle) ?? []) {
      const open = [...this.#declared, ...[...this.#jobs].map(({ store }) => store)];
      if (open.some(isOf(child))) continue;
      this.#owed.get(handle)?.delete(child);
      this.#reports.sent(handle, child);
    }
  }

  /** The worker failed before it began anything of this plan: no load and no hand-over of it begins. */
  #lose({ loads, stores, handOvers }: TierMetadata): void {
    for (const { handle } of loads) this.#stage.blame(handle, 'load');
    for (const store of [...stores, ...handOvers]) this.#declare(store);
    for (const store of handOvers) this.#dropStore(store);
  }
}
