import { channels } from '../../base/channels.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import type { EngineState } from '../state/engine-state.js';

/** The health of an engine, for operators: `Engine.health`. */
export interface EngineHealth {
  /** Whether there are no `reasons`. */
  readonly healthy: boolean;
  /** `draining` once a shutdown has begun; `broken` once the engine refuses all further work. */
  readonly state: 'open' | 'draining' | 'broken' | 'disposed';
  /** Whether the host or the GPU decides the steps, on its instance of the native state. */
  readonly authority: 'host' | 'device';
  /** Why the engine is not healthy, as text; empty if it is. */
  readonly reasons: readonly string[];
}

/** The number of consecutive failed steps that make an engine unhealthy. */
const FAILING_STEPS = 3;

/**
 * Watches an engine for three faults: a hung executor, several consecutive failed steps, and
 * runnable requests that are never scheduled.
 */
export class HealthWatch {
  readonly #e: EngineState;
  /** Consecutive empty plans although a request could run. */
  #stalledSteps = 0;
  #stalledSince = 0;
  #failedSteps = 0;
  #lastFailure: unknown = undefined;
  #wasHealthy = true;

  constructor(e: EngineState) {
    this.#e = e;
  }

  /** Notes that a plan with something to execute was made. */
  scheduled(): void {
    if (this.#stalledSteps === 0) return;
    this.#stalledSteps = 0;
    this.changed();
  }

  /**
   * Notes that an empty plan was made while no step is in flight. Requests that wait for an
   * external event do not count as stalled: each such wait has its own deadline. A lack of free
   * blocks does count, because no step is in flight that could free any.
   */
  scheduledNothing(): void {
    const { scheduler, config } = this.#e;
    if (!scheduler.hasRunnable) {
      this.scheduled();
      return;
    }
    if (this.#stalledSteps++ === 0) this.#stalledSince = this.#e.now();
    if (this.#stalledSteps === config.stallSteps) this.changed();
  }

  /** Notes that the answer of a step was processed. @param error the cause, if the step failed */
  answered(error: unknown, failed: boolean): void {
    if (!failed && this.#failedSteps === 0) return;
    this.#failedSteps = failed ? this.#failedSteps + 1 : 0;
    this.#lastFailure = error;
    if (this.#failedSteps === 0 || this.#failedSteps === FAILING_STEPS) this.changed();
  }

  /** Milliseconds that the executor has left for the oldest step; Infinity if no step waits for it, or there is no timeout. */
  executorTimeLeft(): number {
    const { flight, config, answeredAt } = this.#e;
    if (config.executorTimeoutMs === 0 || flight.length === 0 || flight[0].state !== 'pending') {
      return Number.POSITIVE_INFINITY;
    }
    const since = Math.max(flight[0].submittedAt, answeredAt);
    return since + config.executorTimeoutMs - this.#e.now();
  }

  /** Breaks the engine if its executor is hung. @throws ERR_BLOCKSTEP_EXECUTOR_HUNG if so */
  checkExecutor(): void {
    if (this.executorTimeLeft() > 0) return;
    const hung = new BlockstepError('ERR_BLOCKSTEP_EXECUTOR_HUNG', this.#hungFor());
    this.#e.breakOff(hung);
    throw hung;
  }

  /** See `Engine.health`. */
  read(): EngineHealth {
    const reasons = this.#reasons();
    const { state, scheduler } = this.#e;
    return { healthy: reasons.length === 0, state, authority: scheduler.core.backend.authority, reasons };
  }

  /** Publishes to the health channel if the engine has become healthy or unhealthy since the last message. */
  changed(): void {
    const { healthy, reasons } = this.read();
    if (healthy === this.#wasHealthy) return;
    this.#wasHealthy = healthy;
    if (channels.health.hasSubscribers) channels.health.publish({ healthy, reasons });
  }

  #reasons(): string[] {
    const { disposed, poison, config } = this.#e;
    const broken = poison === null ? [] : [poison.message];
    if (disposed) return ['the engine was disposed', ...broken];
    if (poison !== null) return broken;
    const reasons: string[] = [];
    if (this.executorTimeLeft() <= 0) reasons.push(this.#hungFor());
    if (this.#stalledSteps >= config.stallSteps) reasons.push(this.#stalled());
    if (this.#failedSteps >= FAILING_STEPS) {
      reasons.push(`the last ${this.#failedSteps} steps failed: ${describeError(this.#lastFailure)}`);
    }
    return reasons;
  }

  #hungFor(): string {
    const { flight, config } = this.#e;
    return `the executor has not answered step ${flight[0].number} within ${config.executorTimeoutMs} ms`;
  }

  #stalled(): string {
    const { scheduler } = this.#e;
    const { numRunning, numWaiting, numSkipped, core } = scheduler;
    const ms = Math.round(this.#e.now() - this.#stalledSince);
    const requests = `${numRunning} running and ${numWaiting + numSkipped} waiting requests`;
    const stalled = `nothing was scheduled in the last ${this.#stalledSteps} steps (${ms} ms)`;
    return `${stalled}, with ${requests} and ${core.freeBlocks} free blocks`;
  }
}
