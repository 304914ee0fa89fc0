import { loadAddon } from '../../core/loader.js';
import {
  KV_ENTRY_BYTES,
  type NativeReference,
  type NativeReferenceConfig,
} from '../../core/native/native-reference.js';
import type { StepTables } from '../../core/tables.js';
import type { ExecutorResult } from '../../engine/executor/executor.js';
import { InputBatch } from '../../engine/executor/input-batch.js';
import { BlockArena } from '../../transfer/block-arena.js';
import { PendingStep, type ReadAnswer, type ReferenceRunner } from './runner.js';
import type { ReferenceStep } from './step.js';

/** Schedules a computation: calls `computeOldest` once, at any later time. */
export type Defer = (computeOldest: () => void) => void;

/**
 * Computes steps over host memory, on the submitting thread: at once, or when `defer` calls back.
 */
export class HostRunner implements ReferenceRunner {
  readonly device = 'cpu';
  readonly stream = null;
  readonly kv: BlockArena;
  readonly #native: NativeReference;
  readonly #batch: InputBatch;
  readonly #defer: Defer | null;
  readonly #read: ReadAnswer;
  readonly #pending: PendingStep[] = [];

  /** @throws ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE */
  constructor(config: NativeReferenceConfig, defer: Defer | null, read: ReadAnswer) {
    const { numBlocks, blockSize, shareId } = config;
    this.#native = loadAddon().createReference(config);
    const shape = { numBlocks, bytesPerBlock: blockSize * KV_ENTRY_BYTES };
    this.kv = new BlockArena(this.#native.arena(), shape, shareId);
    this.#batch = new InputBatch({ blockSize });
    this.#defer = defer;
    this.#read = read;
  }

  get numPending(): number {
    return this.#pending.length;
  }

  run(step: ReferenceStep): ExecutorResult | Promise<ExecutorResult> {
    if (this.#defer === null) return this.#compute(step);
    const pending = new PendingStep(step);
    this.#pending.push(pending);
    try {
      this.#defer(() => this.#computeOldest());
    } catch (error) {
      // The step fails now, so it must not be computed in the turn of another step later.
      const at = this.#pending.indexOf(pending);
      if (at >= 0) this.#pending.splice(at, 1);
      throw error;
    }
    return pending.answer.promise;
  }

  adopt(handle: number, blocks: Int32Array): void {
    this.#native.adopt(handle, blocks);
  }

  memory(): { arenaBytes: number; numSequences: number; pinnedBytes: number } {
    return { ...this.#native.memory(), pinnedBytes: 0 };
  }

  dispose(error: Error): void {
    this.#native.dispose();
    this.kv.dispose();
    for (const { answer } of this.#pending.splice(0)) answer.reject(error);
  }

  #computeOldest(): void {
    const pending = this.#pending.shift();
    if (pending === undefined) return;
    try {
      pending.answer.resolve(this.#compute(pending.step));
    } catch (error) {
      pending.answer.reject(error);
    }
  }

  #compute(step: ReferenceStep): ExecutorResult {
    const tables = step.tables as StepTables;
    this.#place(step, tables);
    this.#native.step(step.io.buffer, tables.buffer, step.known, step.zeroed);
    const { tokens, counts, nextDrafts, nextCounts } = step.io;
    this.#batch.sampled(step.plan, { tokens, counts, drafts: { tokens: nextDrafts, counts: nextCounts } });
    return this.#read(step);
  }

  /**
   * Writes the true first position of each entry, plus 1 (0 = no tokens); native code compares it
   * with its own copies.
   */
  #place({ plan, io }: ReferenceStep, tables: StepTables): void {
    const { numRequests, queryStart, numComputed } = this.#batch.prepare(plan, tables);
    for (let i = 0; i < numRequests; i++)
      io.first[i] = queryStart[i + 1] > queryStart[i] ? numComputed[i] + 1 : 0;
  }
}
