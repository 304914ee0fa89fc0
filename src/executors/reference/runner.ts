// The interface that computes the steps of a reference executor, and waiting steps.
import { Deferred } from '../../base/deferred.js';
import type { ExecutorResult } from '../../engine/executor/executor.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import type { ReferenceStep } from './step.js';

/** Reads the answer of a step that was just computed, before its arrays are used again. */
export type ReadAnswer = (step: ReferenceStep) => ExecutorResult;

/** Computes a reference executor's steps and owns its KV memory, on the host or on a GPU. */
export interface ReferenceRunner {
  /** The device and its stream, as in the `PlacementOptions` of a scheduler. */
  readonly device: string;
  readonly stream: bigint | null;
  readonly kv: BlockArena;
  /** Computes a filled step, now or later, in the order of the calls. */
  run(step: ReferenceStep): ExecutorResult | Promise<ExecutorResult>;
  /** Number of steps that were submitted and not computed yet. */
  readonly numPending: number;
  adopt(handle: number, blocks: Int32Array): void;
  memory(): { arenaBytes: number; numSequences: number; pinnedBytes: number };
  /** Frees the memory, `kv` included. Waiting steps fail with this error. */
  dispose(error: Error): void;
}

/** A step that waits to be computed, and its answer. */
export class PendingStep {
  readonly step: ReferenceStep;
  readonly answer = new Deferred<ExecutorResult>();

  constructor(step: ReferenceStep) {
    this.step = step;
    // An answer that nobody waits for any more must not end the process.
    this.answer.promise.catch(() => {});
  }
}
