import { BlockstepError } from '../../base/errors.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import { CompletionQueue } from '../../transfer/completion-queue.js';
import { HostLane } from '../../transfer/host-lane.js';
import type { Lane, LaneCounts } from '../../transfer/lane.js';
import { Verdict } from '../../transfer/verdict.js';

/** A job of a `ScriptedLane`. Its blocks are copied in two halves, at two times. */
export interface ScriptedJob {
  readonly lane: ScriptedLane;
  readonly job: number;
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  readonly notBefore: number;
  /** Number of halves that were copied. */
  halves: number;
}

/** Decides the fate of the jobs of scripted lanes, and watches them. */
export interface LaneScript {
  /** Called when a job has become ready: its source blocks are no longer written. */
  ready(job: ScriptedJob): void;
  /** Called before blocks of a job are copied: [from, to) of its lists. */
  copying(job: ScriptedJob, from: number, to: number): void;
  /** Whether the job fails now, when `halves` of it were copied: nothing, or one. */
  fails(job: ScriptedJob): boolean;
  /** Called when a job is over. */
  over(job: ScriptedJob, verdict: Verdict): void;
}

/**
 * A lane whose jobs advance only on command, so that the same script gives the same run on every
 * machine. A `HostLane` really copies the bytes, and every copy is waited for.
 */
export class ScriptedLane implements Lane {
  readonly queue: CompletionQueue;
  readonly source: BlockArena;
  readonly target: BlockArena;
  readonly #script: LaneScript;
  readonly #ownQueue = new CompletionQueue({ capacity: 4 });
  readonly #copies: HostLane;
  /** Jobs that can begin, in their order; the first one may have begun. */
  readonly #ready: ScriptedJob[] = [];
  readonly #waiting: ScriptedJob[] = [];
  #settled = -1;
  #isDisposed = false;

  constructor(queue: CompletionQueue, source: BlockArena, target: BlockArena, script: LaneScript) {
    this.queue = queue;
    this.source = source;
    this.target = target;
    this.#script = script;
    this.#copies = new HostLane(this.#ownQueue, source, target);
  }

  /** Jobs that are not over. */
  get jobs(): readonly ScriptedJob[] {
    return [...this.#ready, ...this.#waiting];
  }

  submit(sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    this.#checkUsable();
    if (sources.length !== targets.length)
      throw new BlockstepError(
        'ERR_BLOCKSTEP_BAD_ARG',
        `targets must name as many blocks as sources, ${sources.length}, got ${targets.length}`,
      );
    checkBlocks(sources, this.source, 'sources');
    checkBlocks(targets, this.target, 'targets');
    const job = this.queue.begin();
    const taken: ScriptedJob = {
      ...{ lane: this, job, sources: sources.slice(), targets: targets.slice() },
      ...{ notBefore, halves: 0 },
    };
    if (notBefore > this.#settled) this.#waiting.push(taken);
    else this.#becomeReady(taken);
    return job;
  }

  settle(step: number): void {
    this.#checkUsable();
    if (step <= this.#settled) return;
    this.#settled = step;
    const now = this.#waiting.filter(({ notBefore }) => notBefore <= step);
    for (const job of now.sort((a, b) => a.notBefore - b.notBefore)) {
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      this.#becomeReady(job);
    }
  }

  cancel(job: number): boolean {
    this.#checkUsable();
    for (const list of [this.#ready, this.#waiting]) {
      const at = list.findIndex((each) => each.job === job);
      if (at < 0) continue;
      const [taken] = list.splice(at, 1);
      this.#end(taken, Verdict.cancelled);
      return true;
    }
    return false;
  }

  flush(jobs: Int32Array): void {
    this.#checkUsable();
    const early = this.#waiting.find(({ job }) => jobs.includes(job));
    if (early !== undefined)
      throw new BlockstepError(
        'ERR_BLOCKSTEP_BAD_ARG',
        `jobs must not wait for a step that was not settled, got job ${early.job}, which waits for step ${early.notBefore}`,
      );
    while (this.#ready.some(({ job }) => jobs.includes(job))) this.goOn();
  }

  fence(): void {
    this.#checkUsable();
    this.#cancelAll();
  }

  counts(): LaneCounts {
    const waiting = this.#waiting.length;
    const { bytes, copies } = this.#copies.counts();
    return { pending: this.#ready.length + waiting, waiting, bytes, copies };
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#cancelAll();
    this.#isDisposed = true;
    this.#copies.dispose();
    this.#ownQueue.dispose();
  }

  /** Copies the next half of the oldest job, or ends it. @returns false if no job can advance */
  goOn(): boolean {
    const [job] = this.#ready;
    if (job === undefined) return false;
    if (job.halves < 2 && this.#script.fails(job)) {
      this.#ready.shift();
      this.#end(job, Verdict.failed);
      return true;
    }
    if (job.halves < 2) {
      const middle = job.sources.length >> 1;
      const [from, to] = job.halves === 0 ? [0, middle] : [middle, job.sources.length];
      job.halves++;
      this.#copy(job, from, to);
      return true;
    }
    this.#ready.shift();
    this.#end(job, Verdict.ok);
    return true;
  }

  #becomeReady(job: ScriptedJob): void {
    this.#ready.push(job);
    this.#script.ready(job);
  }

  #copy(job: ScriptedJob, from: number, to: number): void {
    if (from === to) return;
    this.#script.copying(job, from, to);
    const copied = this.#copies.submit(job.sources.subarray(from, to), job.targets.subarray(from, to));
    this.#copies.flush(Int32Array.of(copied));
    this.#ownQueue.drain(() => {});
  }

  #cancelAll(): void {
    for (const list of [this.#ready, this.#waiting])
      for (const job of list.splice(0)) this.#end(job, job.halves < 2 ? Verdict.cancelled : Verdict.ok);
  }

  #end(job: ScriptedJob, verdict: Verdict): void {
    this.#script.over(job, verdict);
    try {
      this.queue.post(job.job, verdict);
    } catch {
      // The queue was disposed before its lane, so nobody asks for the job any more.
    }
  }

  #checkUsable(): void {
    if (this.#isDisposed) throw new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the lane was disposed');
  }
}

function checkBlocks(blocks: Int32Array, { numBlocks }: BlockArena, name: string): void {
  for (const block of blocks) {
    if (block >= 0 && block < numBlocks) continue;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_ARG',
      `${name} must be blocks from 0 to ${numBlocks - 1}, got ${block}`,
    );
  }
}
