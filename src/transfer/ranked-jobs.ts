import type { Anomalies } from '../base/anomalies.js';
import type { AnomalyReason } from '../base/anomaly-reason.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { Verdict, worseVerdict } from './verdict.js';

const MAX_RANK = 2 ** 31 - 1;

/** A job that several ranks carry out. */
export interface RankedJob<Payload> {
  /** Number of the job, from 1; no number comes twice. */
  readonly job: number;
  /** The caller's own data. */
  readonly payload: Payload;
  /** The worst verdict that its ranks have reported so far; `ok` before the first report. */
  readonly verdict: Verdict;
}

interface Entry<Payload> extends RankedJob<Payload> {
  verdict: Verdict;
  /**
   * Each rank once: first the `numSilent` ranks that have not reported, then the ranks that have.
   */
  readonly ranks: number[];
  numSilent: number;
}

/**
 * Jobs of which every rank carries out a part. The scheduler side of a connector begins a job,
 * sends its number to the workers, and each rank reports when it is done. The job is over when
 * every rank has reported once. Each rank reports a verdict; `failed` and `cancelled` are as final
 * as `ok`. A failed rank does not end the job, since the other ranks may still read and write.
 *
 * Jobs are numbered from 1 in the order of `begin`, and no number comes twice. So a report that is
 * late, duplicate, or from a rank that takes no part names its job, changes nothing, and is
 * counted.
 */
export class RankedJobs<Payload = undefined> {
  readonly #anomalies: Anomalies;
  readonly #jobs = new Map<number, Entry<Payload>>();
  /** The number of the next job. */
  #next = 1;
  /** Jobs below this number were begun before the last reset (vLLM's stale_job_threshold). */
  #first = 1;

  /** @param anomalies counts reports that change nothing */
  constructor(anomalies: Anomalies) {
    this.#anomalies = anomalies;
  }

  /** Number of jobs that are not over. */
  get size(): number {
    return this.#jobs.size;
  }

  /**
   * Begins a job.
   * @param ranks the ranks that carry it out: at least one, each once, from 0 to 2^31 - 1; copied
   * @param payload kept until the job is over
   * @returns the number of the job
   * @throws ERR_BLOCKSTEP_BAD_ARG, and no number is used up
   */
  begin(ranks: readonly number[], payload: Payload): number {
    const own = parseRanks(ranks);
    const job = this.#next++;
    this.#jobs.set(job, { job, payload, verdict: Verdict.ok, ranks: own, numSilent: own.length });
    return job;
  }

  /**
   * Takes the report that a rank is done with its part of a job.
   * @returns the job with its worst verdict if this was its last rank, exactly once; otherwise
   * null. A report that changes nothing is counted: `duplicate-completion` if the rank has reported
   * or the job is over. `wrong-owner` if the job has no such rank. `after-reset` if the job was
   * begun before the last reset. `unknown-completion` if it was never begun
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  report(job: number, rank: number, verdict: Verdict): RankedJob<Payload> | null {
    checkInteger('job', job, 1, Number.MAX_SAFE_INTEGER);
    checkInteger('rank', rank, 0, MAX_RANK);
    checkInteger('verdict', verdict, 1, 3);
    const entry = this.#jobs.get(job);
    if (entry === undefined) return this.#skip(this.#whyNot(job), job, rank);
    const { ranks } = entry;
    const at = ranks.indexOf(rank);
    if (at < 0) return this.#skip('wrong-owner', job, rank);
    if (at >= entry.numSilent) return this.#skip('duplicate-completion', job, rank);
    const last = --entry.numSilent;
    ranks[at] = ranks[last];
    ranks[last] = rank;
    entry.verdict = worseVerdict(entry.verdict, verdict);
    if (last > 0) return null;
    this.#jobs.delete(job);
    return entry;
  }

  /** A job that is not over; null if there is none of this number. */
  get(job: number): RankedJob<Payload> | null {
    return this.#jobs.get(job) ?? null;
  }

  /** The ranks that have not reported a job yet; none if there is no such job or it is over. */
  silent(job: number): number[] {
    const entry = this.#jobs.get(job);
    return entry === undefined ? [] : entry.ranks.slice(0, entry.numSilent);
  }

  /**
   * Begins an epoch: every job is forgotten, and later reports of it are counted as `after-reset`.
   * The transfers themselves go on: the ranks must end them (`Lane.fence`) before the blocks are
   * used again.
   * @returns the jobs that were not over
   */
  reset(): RankedJob<Payload>[] {
    const forgotten = [...this.#jobs.values()];
    this.#jobs.clear();
    this.#first = this.#next;
    return forgotten;
  }

  /** For `util.inspect` and `console.log`: the jobs that are not over, and how many were begun. */
  [INSPECT](depth: number, options: object): string {
    return showFacts('RankedJobs', depth, options, { jobs: this.#jobs.size, begun: this.#next - 1 });
  }

  /** Why a report finds no such job. */
  #whyNot(job: number): AnomalyReason {
    if (job >= this.#next) return 'unknown-completion';
    return job < this.#first ? 'after-reset' : 'duplicate-completion';
  }

  #skip(reason: AnomalyReason, job: number, rank: number): null {
    this.#anomalies.report(reason, `rank ${rank} reported job ${job}`);
    return null;
  }
}

function parseRanks(ranks: unknown): number[] {
  const expected = 'a list of at least one rank, each once';
  if (!Array.isArray(ranks)) throw badArgument('ranks', show(ranks), expected);
  const own = [...(ranks as unknown[])];
  if (own.length === 0) throw badArgument('ranks', show(own), expected);
  for (const [i, rank] of own.entries()) {
    checkInteger(`ranks[${i}]`, rank, 0, MAX_RANK);
    if (own.indexOf(rank) < i) throw badArgument('ranks', `${show(rank)} twice`, expected);
  }
  return own as number[];
}
