import { setTimeout as sleep } from 'node:timers/promises';
import { badArg, isObject } from '../base/checks.js';
import { BlockstepError, checkInteger } from '../base/errors.js';
import { checkNames } from '../base/known-names.js';
import { Orchestrator } from './orchestrator/orchestrator.js';
import type { PipelineStream } from './orchestrator/pipeline-stream.js';
import type { PipelineInput, PipelineSubmitOptions } from './orchestrator/submission.js';
import { type Phase, type PipelineHealth, readHealth } from './pipeline-health.js';
import { type PipelineConfig, type PipelineOptions, parsePipelineOptions } from './pipeline-options.js';
import { Stage, type StageStats } from './stage/stage.js';
import { Ticker } from './time/ticker.js';
import type { StageFigures } from './transport/messages.js';

/** Options of `Pipeline.shutdown`. */
export interface PipelineShutdownOptions {
  /** Milliseconds in which unfinished requests may still end. Default 30,000. */
  drainMs?: number;
}

/** Statistics of a pipeline. Plain data. */
export interface PipelineStats {
  /** Unfinished requests. */
  readonly requests: number;
  readonly completed: number;
  readonly aborted: number;
  readonly failed: number;
  /** Messages of stages about ended requests, for instance because an abort raced with them. */
  readonly lateOutputs: number;
  readonly anomalies: Record<string, number>;
  /**
   * Each stage by name. For a stage of this process: its statistics. For a stage in another
   * process: its last figures, and the milliseconds since its last answer.
   */
  readonly stages: Record<string, StageStats | (Partial<StageFigures> & { readonly silentMs: number })>;
}

/**
 * Several engines in a row, each in its own stage. They pass their outputs on in chunks while they
 * are still producing. A request is submitted to all stages at once; in a later stage it is parked
 * until its next chunk arrives.
 *
 * The stages are in this process, or in other processes (`StageServer`), which the transport
 * reaches. Each request ends once, in all stages. It ends when the last stage has ended, or by an
 * abort. It ends with an error when a stage fails, does not answer or waits too long.
 */
export class Pipeline implements AsyncDisposable {
  readonly #config: PipelineConfig;
  /** Stages of this process; null: the stage is in another process. */
  readonly #stages: readonly (Stage | null)[];
  readonly #orchestrator: Orchestrator;
  readonly #ticker = new Ticker(
    () => this.#tick(),
    () => this.#orchestrator.isAwaited,
  );
  #closing: Promise<void> | null = null;
  #phase: Phase = 'open';
  /** The end of a shutdown's grace period, in milliseconds of the clock. */
  #drainUntil = Number.POSITIVE_INFINITY;

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG, and the errors of the constructor of `Engine` for a stage. All
   * stages made before are then removed
   */
  constructor(options: PipelineOptions) {
    const config = parsePipelineOptions(options);
    const { transport, now, pingMs, deadMs, maxRequests, names } = config;
    this.#config = config;
    const stages: (Stage | null)[] = [];
    try {
      for (const stage of config.stages)
        stages.push('remote' in stage ? null : new Stage(stage, { transport, now, deadMs: 0 }));
      this.#orchestrator = new Orchestrator({
        names,
        transport,
        now,
        limits: { pingMs, deadMs },
        // A stage elsewhere may have no server, even where the transport loses nothing.
        pings: !transport.isLocal || stages.includes(null),
        maxRequests,
      });
    } catch (error) {
      for (const stage of stages) {
        void stage?.close();
        stage?.engine.dispose();
      }
      throw error;
    }
    this.#stages = stages;
  }

  /** Names of the stages, in order. */
  get names(): readonly string[] {
    return this.#config.names;
  }

  /**
   * Submits a request to all stages. Never waits. If a stage refuses it, for instance because the
   * prompt is too long, the request fails.
   * @returns the request's stream, to be iterated or awaited
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID; ERR_BLOCKSTEP_OVERLOADED with
   * `maxRequests` unfinished requests; ERR_BLOCKSTEP_SHUTDOWN. Nothing was changed
   */
  submit(request: PipelineInput, options: PipelineSubmitOptions = {}): PipelineStream {
    if (this.#closing !== null)
      throw new BlockstepError('ERR_BLOCKSTEP_SHUTDOWN', 'the pipeline is shutting down, or was shut down');
    const stream = this.#orchestrator.submit(request, options);
    this.#ticker.look();
    return stream;
  }

  /**
   * Aborts requests by id, in all stages. Unknown ids are counted.
   * @param reason the readers are rejected with it; without a reason their streams end with `finishReason: 'abort'`
   * @throws ERR_BLOCKSTEP_BAD_ARG; nothing was aborted
   */
  abort(ids: string | Iterable<string>, reason?: unknown): void {
    const all = typeof ids === 'string' ? [ids] : [...parseIds(ids)];
    for (const id of all) if (typeof id !== 'string') throw badArg('ids', id, 'ids, which are strings');
    this.#orchestrator.abort(all, reason);
  }

  /** Aborts every request. @param reason as for `abort` */
  abortAll(reason?: unknown): void {
    this.#orchestrator.abortAll(reason);
  }

  /**
   * Starts the loops of this process's stages, until `stop` or the end. Keeps the process alive
   * while a request is unfinished.
   */
  run(): void {
    if (this.#closing !== null)
      throw new BlockstepError('ERR_BLOCKSTEP_SHUTDOWN', 'the pipeline was shut down');
    this.#start();
  }

  /** Ends `run`. */
  stop(): void {
    for (const stage of this.#stages) stage?.engine.stop();
    this.#ticker.stop();
  }

  /**
   * Drives the pipeline in place of `run`. One call is one round of every stage of this process,
   * then one turn of the event loop, which moves chunks and outputs.
   * @returns whether a stage has made progress
   * @throws by rejection, after the round, the error of the first engine whose step fails. That
   * engine's requests have failed too
   */
  async step(): Promise<boolean> {
    this.#tick();
    let moved = false;
    const failures: unknown[] = [];
    for (const stage of this.#stages) {
      try {
        if (stage !== null && (await stage.engine.stepAsync()).state === 'progress') moved = true;
      } catch (error) {
        failures.push(error);
      }
    }
    await new Promise<void>((resolve) => setImmediate(resolve));
    if (failures.length > 0) throw failures[0];
    return moved;
  }

  /** Unfinished requests. */
  get numUnfinished(): number {
    return this.#orchestrator.size;
  }

  /**
   * Latest time for the next `step`, in milliseconds of the pipeline's clock; Infinity: no wait is
   * limited. A wait may end at this time. A stage that is called too late counts as asleep, and its
   * sleep counts in no wait.
   */
  get nextDeadline(): number {
    const stages = this.#stages.map((stage) => stage?.nextDeadline ?? Number.POSITIVE_INFINITY);
    return Math.min(this.#orchestrator.nextDeadline, ...stages);
  }

  /**
   * Describes what a request waits for in each stage and since when, for people. Stages in other
   * processes are asked, for at most a second.
   */
  explain(id: string): Promise<string> {
    return this.#orchestrator.explain(id, (at, key) => {
      const stage = this.#stages[at];
      return stage === null ? undefined : stage.explain(key);
    });
  }

  /**
   * Whether the pipeline is healthy, and if not why. Works in every state. For a stage in another
   * process, its last report counts while it answers.
   */
  health(): PipelineHealth {
    return readHealth(this.#phase, this.names, this.#stages, this.#orchestrator);
  }

  /** Statistics of the pipeline and its stages. @throws ERR_BLOCKSTEP_DISPOSED */
  stats(): PipelineStats {
    const { silentMs, ...counts } = this.#orchestrator.stats();
    const stages: PipelineStats['stages'] = {};
    this.#stages.forEach((stage, i) => {
      stages[this.names[i]] = stage?.stats() ?? { ...this.#orchestrator.figuresOf(i), silentMs: silentMs[i] };
    });
    return { ...counts, stages };
  }

  /** Checks the invariants of the stages of this process. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    for (const stage of this.#stages) stage?.verify();
  }

  /**
   * Shuts the pipeline down. New requests are refused. Present ones continue for at most `drainMs`,
   * and are then aborted. The stages of this process end; stages in other processes continue.
   * @returns one promise for all calls; rejects only if the executor of a stage fails to dispose. A
   * later call can shorten the drain
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  shutdown(options: PipelineShutdownOptions = {}): Promise<void> {
    if (!isObject(options)) throw badArg('options', options, 'an object');
    checkNames(options, { what: 'the options of shutdown', names: new Set(['drainMs']), words: new Map() });
    const { drainMs = 30_000 } = options as PipelineShutdownOptions;
    checkInteger('drainMs', drainMs, 0, 2 ** 31 - 1);
    this.#drainUntil = Math.min(this.#drainUntil, this.#config.now() + drainMs);
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.shutdown();
  }

  #tick(): void {
    for (const stage of this.#stages) stage?.tick();
    this.#orchestrator.tick();
  }

  #start(): void {
    for (const stage of this.#stages) stage?.run();
    this.#ticker.start();
  }

  async #close(): Promise<void> {
    const { now } = this.#config;
    this.#phase = 'draining';
    if (this.numUnfinished > 0 && now() < this.#drainUntil) this.#start();
    while (this.numUnfinished > 0 && now() < this.#drainUntil) await sleep(5);
    this.abortAll();
    this.#ticker.stop();
    await this.#orchestrator.close();
    const ends = this.#stages.map(async (stage) => {
      await stage?.close();
      await stage?.engine.shutdown({ drainMs: 0 });
    });
    const ended = await Promise.allSettled(ends);
    this.#phase = 'disposed';
    for (const end of ended) if (end.status === 'rejected') throw end.reason;
  }
}

function parseIds(ids: unknown): Iterable<string> {
  if (typeof ids === 'object' && ids !== null && Symbol.iterator in ids) return ids as Iterable<string>;
  throw badArg('ids', ids, 'an id, or an iterable of ids');
}
