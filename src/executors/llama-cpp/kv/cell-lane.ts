import { BlockstepError, badArgument } from '../../../base/errors.js';
import { INSPECT, showFacts } from '../../../base/inspect.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import type { CompletionQueue } from '../../../transfer/completion-queue.js';
import type { Lane, LaneCounts } from '../../../transfer/lane.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { NativeContext } from '../native/binding.js';
import type { CellCopies, CopyJob } from './cell-copies.js';

/** The sides of a `CellLane`. */
export interface CellLaneSides {
  readonly context: NativeContext;
  readonly copies: CellCopies;
  /** Blocks of the pool. */
  readonly numBlocks: number;
  readonly arena: BlockArena;
  /** Whether the lane saves blocks of the pool in the arena; otherwise it loads them. */
  readonly isSave: boolean;
}

/**
 * A lane between llama.cpp's cache and an arena. The executor makes its copies between two steps,
 * so a job that was submitted during a step waits for its end. `flush`, `fence` and `dispose` cancel
 * jobs that have not begun, and wait only for copies.
 */
export class CellLane implements Lane {
  readonly queue: CompletionQueue;
  readonly #sides: CellLaneSides;
  readonly #arena: number;
  /** Jobs that are not over, by their numbers. */
  readonly #jobs = new Map<number, CopyJob>();
  /** Jobs among these that wait for a step, in the order of `submit`. */
  #waiting: { readonly job: number; readonly notBefore: number }[] = [];
  #settled = -1;
  #copied = 0;
  #isDisposed = false;

  constructor(queue: CompletionQueue, sides: CellLaneSides) {
    this.queue = queue;
    this.#sides = sides;
    this.#arena = sides.context.addArena(sides.arena.pointer, sides.arena.numBlocks);
  }

  submit(sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    this.#checkUsable();
    const { numBlocks, arena, isSave } = this.#sides;
    if (sources.length !== targets.length)
      throw badArgument('targets', `${targets.length} blocks`, `as many as sources, ${sources.length}`);
    const [blocks, places] = isSave ? [sources, targets] : [targets, sources];
    checkBlocks(isSave ? 'sources' : 'targets', blocks, numBlocks);
    checkBlocks(isSave ? 'targets' : 'sources', places, arena.numBlocks);
    if (new Set(targets).size < targets.length)
      throw badArgument('targets', 'a block twice', 'each block once');
    const number = this.queue.begin();
    const job: CopyJob = {
      ...{ isSave, blocks: blocks.slice(), places: places.slice(), arena: this.#arena },
      end: (verdict) => this.#end(number, verdict),
    };
    this.#jobs.set(number, job);
    if (notBefore > this.#settled) this.#waiting.push({ job: number, notBefore });
    else this.#sides.copies.add(job);
    return number;
  }

  settle(step: number): void {
    this.#checkUsable();
    if (step <= this.#settled) return;
    this.#settled = step;
    if (this.#waiting.length === 0) return;
    const ready = this.#waiting.filter(({ notBefore }) => notBefore <= step);
    this.#waiting = this.#waiting.filter(({ notBefore }) => notBefore > step);
    for (const { job } of ready.sort((a, b) => a.notBefore - b.notBefore)) {
      const found = this.#jobs.get(job);
      if (found !== undefined) this.#sides.copies.add(found);
    }
  }

  cancel(job: number): boolean {
    this.#checkUsable();
    const found = this.#jobs.get(job);
    if (found === undefined) return false;
    if (this.#sides.copies.cancel(found)) return true;
    this.#waiting = this.#waiting.filter((each) => each.job !== job);
    this.#end(job, Verdict.cancelled);
    return true;
  }

  flush(jobs: Int32Array): void {
    this.#checkUsable();
    if (this.#waiting.some(({ job }) => jobs.includes(job)))
      throw badArgument('jobs', 'a job that waits for a step', 'jobs whose steps were settled');
    const flushed = new Set<CopyJob>();
    for (const job of jobs) {
      const found = this.#jobs.get(job);
      if (found !== undefined) flushed.add(found);
    }
    this.#sides.copies.flush(flushed);
  }

  fence(): void {
    this.#checkUsable();
    this.#endAll();
  }

  counts(): LaneCounts {
    this.#checkUsable();
    const { bytesPerBlock } = this.#sides.arena;
    return {
      pending: this.#jobs.size,
      waiting: this.#waiting.length,
      bytes: this.#copied * bytesPerBlock,
      copies: this.#copied,
    };
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#endAll();
    this.#isDisposed = true;
    this.#sides.context.dropArena(this.#arena);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  [INSPECT](depth: number, options: object): string {
    const facts = { from: 'host', to: 'host' };
    return showFacts('CellLane', depth, options, facts, () => ({ ...this.counts() }));
  }

  #endAll(): void {
    this.#waiting = [];
    this.#sides.copies.flush(new Set(this.#jobs.values()));
    // The rest waited for a step.
    for (const job of [...this.#jobs.keys()]) this.#end(job, Verdict.cancelled);
  }

  #end(number: number, verdict: Verdict): void {
    const job = this.#jobs.get(number);
    if (job === undefined) return;
    this.#jobs.delete(number);
    if (verdict === Verdict.ok) this.#copied += job.blocks.length;
    try {
      this.queue.post(number, verdict);
    } catch {
      // The queue was disposed before its lane, so nobody asks for the job any more.
    }
  }

  #checkUsable(): void {
    if (this.#isDisposed) throw new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the lane was disposed');
  }
}

function checkBlocks(name: string, blocks: Int32Array, numBlocks: number): void {
  for (const block of blocks)
    if (block < 0 || block >= numBlocks)
      throw badArgument(name, String(block), `blocks from 0 to ${numBlocks - 1}`);
}
