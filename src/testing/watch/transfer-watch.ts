import type { BlockLists, KvView } from '../../scheduler/connector/kv-view.js';
import { type KvViewGroup, neededPlaces } from '../../scheduler/connector/view-group.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import type { Verdict } from '../../transfer/verdict.js';
import type { RankExecutors } from './rank-executors.js';
import type { LaneScript, ScriptedJob } from './scripted-lane.js';
import type { Diary } from './trouble.js';

/** A load that the scheduler has ordered. */
interface WatchedLoad {
  readonly handle: number;
  readonly name: string;
  readonly blocks: readonly number[];
  readonly isAsync: boolean;
  /** The step whose metadata begins it; -1 = the plan is not made yet. */
  step: number;
  /** By rank: the step after which it may write; -2 = the worker does not know of the load yet. */
  readonly notBefore: number[];
  /** Ranks that have not reported the end. */
  readonly silent: Set<number>;
}

/**
 * An outside observer of the transfers of one connector: its ordered loads, and the work of its
 * lanes. The observer finds every write into the KV memory that no load asked for or that comes too
 * early. It also finds every report before the end of its copies, and every block that changes
 * while it is copied away.
 *
 * The observer cannot see lanes that the connector did not make with `ConnectorWorld.makeLane`.
 */
export class TransferWatch implements LaneScript {
  /** Whether copies may fail, by chance. */
  failChance: () => boolean = () => false;
  /** Tokens of the ordered loads. */
  numLoadedTokens = 0;
  /** Jobs that are not over. */
  readonly jobs = new Set<ScriptedJob>();
  readonly #diary: Diary;
  readonly #executors: RankExecutors;
  #groups: readonly KvViewGroup[] = [];
  #lastPlanned = -1;
  /** Loads that some rank has not reported. */
  readonly #loads = new Set<WatchedLoad>();
  /**
   * By handle: tokens of the local prefix at the last answer, and whether the load is asynchronous.
   */
  readonly #offers = new Map<number, { local: number; isAsync: boolean }>();
  /** The bytes of a job's sources when it became ready. */
  readonly #before = new Map<ScriptedJob, Uint8Array[]>();
  /** Jobs that will fail, and how many of their halves are copied before. */
  readonly #doomed = new Map<ScriptedJob, number>();

  /**
   * Called with every mistake. A mistake must not be thrown where it is found, because the engine
   * counts the errors of a connector.
   */
  readonly broke: (what: string) => void;

  constructor(diary: Diary, executors: RankExecutors, broke: (what: string) => void) {
    this.broke = broke;
    this.#diary = diary;
    this.#executors = executors;
  }

  bind({ groups }: KvView): void {
    this.#groups = groups;
  }

  offered({ handle }: ConnectorRequest, local: number, isAsync: boolean): void {
    this.#offers.set(handle, { local, isAsync });
  }

  /** Notes that the scheduler orders a load. */
  ordered(request: ConnectorRequest, blocks: BlockLists, numTokens: number): void {
    const offer = this.#offers.get(request.handle);
    if (offer === undefined) return;
    // Blocks that a group does not need are not loaded.
    const loaded = this.#groups.flatMap((group, g) => {
      const { first, end } = neededPlaces(group, offer.local + numTokens);
      return [...blocks[g].subarray(Math.max(first, Math.floor(offer.local / group.blockSize)), end)];
    });
    const ranks = Array.from(this.#executors.ranks.keys());
    this.numLoadedTokens += numTokens;
    this.#loads.add({
      ...{ handle: request.handle, name: request.id, blocks: loaded, step: -1 },
      ...{ isAsync: offer.isAsync, notBefore: ranks.map(() => -2), silent: new Set(ranks) },
    });
  }

  planned(step: number): void {
    this.#lastPlanned = step;
    for (const load of this.#loads) if (load.step < 0) load.step = step;
  }

  /** Notes that the answer of a step is being taken. */
  settled(step: number): void {
    this.#executors.settled(step, this.#lastPlanned);
  }

  /** Notes that the workers of a rank learn of a step. */
  begun(rank: number, step: number, notBefore: number): void {
    for (const load of this.#loads) if (load.step === step) load.notBefore[rank] = notBefore;
  }

  /** Whether a rank owes the report of a synchronous load, which its step reads at once. */
  hasSyncLoad(rank: number): boolean {
    for (const load of this.#loads) if (!load.isAsync && load.silent.has(rank)) return true;
    return false;
  }

  /** Notes that a rank reports the end of a load. */
  received(rank: number, handle: number, step: number | undefined): void {
    for (const load of this.#loads) {
      if (load.handle !== handle || !load.silent.has(rank) || (step !== undefined && step !== load.step))
        continue;
      for (const job of this.jobs) {
        if (this.#rankOf(job.lane.target) !== rank) continue;
        if (load.blocks.some((block) => job.targets.includes(block)))
          this.broke(
            `rank ${rank} reports that ${load.name} was received, and a copy into its blocks is not over`,
          );
      }
      this.#drop(load, rank);
      return;
    }
  }

  /**
   * Forgets the loads of a request whose reports will never come: they were lost, or its worker
   * threw.
   */
  forget(handle: number): void {
    for (const load of this.#loads) if (load.handle === handle) this.#loads.delete(load);
  }

  /** Notes a fence of the operator. Loads that no worker knows of continue. */
  fenced(): void {
    for (const load of this.#loads) if (load.notBefore.some((step) => step !== -2)) this.#loads.delete(load);
  }

  /** Loads that some rank has not reported, in words. */
  get open(): string[] {
    return [...this.#loads].map(
      ({ name, silent, step }) => `load of ${name} in step ${step} by rank ${[...silent]}`,
    );
  }

  /** Whether any copy is still under way. */
  get isCopying(): boolean {
    return this.jobs.size > 0;
  }

  ready(job: ScriptedJob): void {
    this.jobs.add(job);
    if (this.failChance()) this.#doomed.set(job, job.job % 2);
    if (this.#rankOf(job.lane.source) < 0) return;
    this.#before.set(
      job,
      Array.from(job.sources, (block) => job.lane.source.readBlock(block)),
    );
  }

  copying(job: ScriptedJob, from: number, to: number): void {
    const rank = this.#rankOf(job.lane.target);
    for (let i = from; i < to; i++) {
      if (rank >= 0) this.#checkWrite(rank, job.targets[i]);
      const before = this.#before.get(job)?.[i];
      if (before === undefined) continue;
      const now = job.lane.source.readBlock(job.sources[i]);
      if (before.every((byte, at) => byte === now[at])) continue;
      this.broke(`block ${job.sources[i]} is written while it is copied away: nothing protects it`);
    }
  }

  fails(job: ScriptedJob): boolean {
    return this.#doomed.get(job) === job.halves;
  }

  over(job: ScriptedJob, verdict: Verdict): void {
    this.jobs.delete(job);
    this.#before.delete(job);
    this.#doomed.delete(job);
    const { sources, targets } = job;
    const what = this.#rankOf(job.lane.target) >= 0 ? `into ${targets}` : `of ${sources}`;
    this.#diary.note(`copy ${what} ends with ${['', 'ok', 'failed', 'cancelled'][verdict]}`);
  }

  #checkWrite(rank: number, block: number): void {
    for (const load of this.#loads) {
      if (!load.silent.has(rank) || !load.blocks.includes(block)) continue;
      const notBefore = load.notBefore[rank];
      if (notBefore === -2) continue;
      const waiting = this.#executors.firstWaiting(rank);
      if (waiting > notBefore) return;
      this.broke(
        `rank ${rank} loads block ${block} for ${load.name} before step ${waiting} was executed: notBefore is ${notBefore}`,
      );
      return;
    }
    this.broke(`rank ${rank} writes block ${block}, which no load that it was told of and not reported has`);
  }

  #drop(load: WatchedLoad, rank: number): void {
    load.silent.delete(rank);
    if (load.silent.size === 0) this.#loads.delete(load);
  }

  /** Whether a lane reads or writes the KV memory of a rank. */
  isOfRank({ source, target }: ScriptedJob['lane'], rank: number): boolean {
    return this.#rankOf(source) === rank || this.#rankOf(target) === rank;
  }

  /** The rank that owns a KV memory; -1 = another arena. */
  #rankOf(arena: BlockArena): number {
    return this.#executors.ranks.findIndex(({ kv }) => kv === arena);
  }
}
