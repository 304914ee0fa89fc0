import type { StepCost } from '../../executors/cost-model/step-features.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { Workload, type WorkloadColumns } from '../../workload/workload.js';
import { bandCosts, type Profile, profileCost } from '../model/profile.js';
import { WatchedCost } from '../model/seen-range.js';
import { EngineRun } from '../run/engine-run.js';
import { type Router, route } from './routing.js';

/** The common data of all threads: the trace in shared memory, and the profile. */
export interface Shared {
  readonly columns: WorkloadColumns;
  readonly profile: Profile;
}

/** A fleet of equal engines under a load. */
export interface Fleet {
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  readonly engines: number;
  readonly router: Router;
  /** Requests arrive this many times as fast as in the trace. */
  readonly speedUp: number;
  /** Member of the profile's ensemble; -1: its best fit. */
  readonly member: number;
  /** The first so many requests of the trace are run. */
  readonly requests: number;
  /** Probability that a draft token is accepted, given that those before it were. */
  readonly acceptanceRate: number;
}

/** Some engines of a fleet, which are simulated one after the other. */
export interface Task extends Fleet {
  /** The engines of this task: from, until. */
  readonly from: number;
  readonly until: number;
}

/** The result of a task. Columns have a row for each request of these engines, in their order. */
export interface TaskResult {
  readonly indices: Int32Array;
  readonly firstMs: Float64Array;
  readonly lastMs: Float64Array;
  /** For each engine: the digest of its state. */
  readonly digests: BigUint64Array;
  readonly steps: number;
  readonly stepsOutside: number;
  readonly preemptions: number;
  /** The maximum number of requests that ran at once in one engine. */
  readonly peakRunning: number;
  readonly refused: number;
}

/** Copies a trace into memory that threads share. */
export function shareColumns({ columns }: Workload): WorkloadColumns {
  const copy = <T extends Float64Array | Int32Array | Uint32Array>(
    from: T,
    make: new (buffer: SharedArrayBuffer) => T,
  ): T => {
    const into = new make(new SharedArrayBuffer(from.byteLength));
    into.set(from as never);
    return into;
  };
  const { arrivalMs, inputTokens, outputTokens, hashStarts, hashIds } = columns;
  return {
    arrivalMs: copy(arrivalMs, Float64Array as never),
    inputTokens: copy(inputTokens, Int32Array as never),
    outputTokens: copy(outputTokens, Int32Array as never),
    hashStarts: hashStarts === null ? null : copy(hashStarts, Uint32Array as never),
    hashIds: copy(hashIds, Int32Array as never),
  };
}

/** Runs tasks over one trace. */
export class TaskRunner {
  readonly #workload: Workload;
  readonly #profile: Profile;
  readonly #cost: StepCost;
  readonly #band: readonly StepCost[];
  /** The engines of all requests, for the last fleet. */
  #routed: { key: string; engineOf: Int32Array } | null = null;

  constructor({ columns, profile }: Shared) {
    this.#workload = new Workload(columns, 0);
    this.#profile = profile;
    this.#cost = profileCost(profile);
    this.#band = bandCosts(profile);
  }

  /** @throws ERR_BLOCKSTEP_BAD_ARG for options that a scheduler refuses */
  run(task: Task): TaskResult {
    const engineOf = this.#route(task);
    const cost = task.member < 0 ? this.#cost : this.#band[task.member];
    const watched = new WatchedCost(cost, this.#profile.seen);
    const indices: number[] = [];
    const first: number[] = [];
    const last: number[] = [];
    const digests = new BigUint64Array(task.until - task.from);
    let steps = 0;
    let preemptions = 0;
    let peakRunning = 0;
    let refused = 0;
    for (let engine = task.from; engine < task.until; engine++) {
      const own = indicesOf(engineOf.subarray(0, task.requests), engine);
      const run = new EngineRun({
        workload: this.#workload,
        indices: own,
        speedUp: task.speedUp,
        scheduler: task.scheduler,
        acceptanceRate: task.acceptanceRate,
        cost: watched,
      });
      try {
        run.run();
        for (const i of own) {
          indices.push(i);
          first.push(run.times.firstMs[i]);
          last.push(run.times.lastMs[i]);
        }
        digests[engine - task.from] = run.scheduler.digest();
        steps += run.steps;
        preemptions += run.preemptions;
        peakRunning = Math.max(peakRunning, run.peakRunning);
        refused += run.refused;
      } finally {
        run.dispose();
      }
    }
    return {
      indices: Int32Array.from(indices),
      firstMs: Float64Array.from(first),
      lastMs: Float64Array.from(last),
      digests,
      steps,
      stepsOutside: watched.stepsOutside,
      preemptions,
      peakRunning,
      refused,
    };
  }

  #route({ engines, router, speedUp }: Task): Int32Array {
    const key = `${engines} ${router} ${speedUp}`;
    if (this.#routed?.key !== key) {
      this.#routed = { key, engineOf: route(this.#workload, engines, router, speedUp) };
    }
    return this.#routed.engineOf;
  }
}

function indicesOf(engineOf: Int32Array, engine: number): Int32Array {
  let count = 0;
  for (const each of engineOf) if (each === engine) count++;
  const indices = new Int32Array(count);
  let at = 0;
  for (let i = 0; i < engineOf.length; i++) if (engineOf[i] === engine) indices[at++] = i;
  return indices;
}
