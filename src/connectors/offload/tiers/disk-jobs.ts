import type { Anomalies } from '../../../base/anomalies.js';
import { RankedJobs } from '../../../transfer/ranked-jobs.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { DiskEnd } from './orders.js';
import type { Promotion } from './promotions.js';

/** A disk job that all ranks carry out. */
export interface DiskJob {
  readonly kind: 'find' | 'read' | 'write';
  readonly keys: readonly bigint[];
  readonly places: Int32Array;
  readonly promotion: Promotion | null;
  /** By key: the lowest value that a rank has reported, as in `DiskEnd`. */
  readonly good: Uint8Array;
  /** Whether the job began before the last reset. */
  isStale: boolean;
}

/**
 * The jobs between the host tier and the disk. A key is good only if every rank reports it as good.
 * Ranks may report in any order.
 */
export class DiskJobs {
  readonly #ranks: readonly number[];
  readonly #jobs: RankedJobs<DiskJob>;
  /** The jobs that some rank has not reported. */
  readonly #live = new Set<DiskJob>();

  constructor(ranks: readonly number[], anomalies: Anomalies) {
    this.#ranks = ranks;
    this.#jobs = new RankedJobs(anomalies);
  }

  /** Number of jobs that some rank has not reported. */
  get size(): number {
    return this.#live.size;
  }

  /** @returns the job's number */
  begin(
    kind: DiskJob['kind'],
    keys: readonly bigint[],
    places: Int32Array,
    promotion: Promotion | null,
  ): number {
    const good = new Uint8Array(keys.length).fill(1);
    const job: DiskJob = { kind, keys, places, promotion, good, isStale: false };
    this.#live.add(job);
    return this.#jobs.begin(this.#ranks, job);
  }

  /** Takes a rank's report. @returns the job if this was the last rank; else null */
  report(rank: number, { job, good }: DiskEnd): DiskJob | null {
    const least = this.#jobs.get(job)?.payload.good;
    least?.forEach((before, i) => {
      least[i] = Math.min(before, good[i] ?? 0);
    });
    const over = this.#jobs.report(job, rank, Verdict.ok)?.payload ?? null;
    if (over !== null) this.#live.delete(over);
    return over;
  }

  /** Invalidates all jobs under way. */
  reset(): void {
    for (const job of this.#live) job.isStale = true;
  }
}
