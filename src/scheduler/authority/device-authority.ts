import { BlockstepError } from '../../base/errors.js';
import type { SchedulerCalls } from '../calls/scheduler-calls.js';
import type { Plan } from '../plan/plan.js';
import type { Authority, AuthorityWords, Round, Turn } from './authority.js';
import { scheduleOnDevice } from './device-pass.js';
import { type Deciding, GpuQuestion } from './gpu-question.js';
import { PendingRound } from './pending-round.js';
import { PendingSchedule } from './pending-schedule.js';

/**
 * The GPU decides: a plan takes some round trips to it, and the event loop goes on meanwhile. A client's call to an engine
 * that changes something first carries the round that waits to its end, in place: a GPU decides in microseconds.
 */
export class DeviceAuthority implements Authority {
  readonly #calls: SchedulerCalls;
  readonly #question: GpuQuestion;
  /** The round whose plan is not decided yet; null = no such round. */
  #round: PendingRound<unknown> | null = null;
  /** A turn waits for the GPU. */
  #turning = false;
  /** Another turn was asked for while one waited. */
  #missed = false;

  constructor(calls: SchedulerCalls) {
    this.#calls = calls;
    this.#question = new GpuQuestion(calls.state);
  }

  get words(): AuthorityWords {
    const now = this.#calls.gate.isSuspended ? 'the GPU is deciding the next step' : null;
    return { call: 'stepAsync()', next: 'the GPU decides, in the next step', now };
  }

  schedule(): Plan {
    return this.#calls.enter(() => {
      throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the GPU decides: await scheduleAsync()');
    });
  }

  async scheduleAsync(): Promise<Plan> {
    return await this.begin().settle();
  }

  scheduleInPlace(): Plan {
    return this.begin().finish();
  }

  /** Begins a plan that can be waited for in either way. @throws what a call of the scheduler throws at its gate */
  begin(): PendingSchedule {
    this.#calls.gate.checkFree();
    return new PendingSchedule(this.#inParts());
  }

  round<Report>(round: Round<Report>): Report {
    round.check();
    throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the GPU decides: await stepAsync(), or run()');
  }

  async roundAsync<Report>(round: Round<Report>): Promise<Report> {
    round.check();
    const pending = round.part(() => (round.begin() ? this.begin() : null));
    if (pending === null) return round.part(() => round.end(null));
    const decided = new PendingRound(
      () => round.part(() => pending.finish()),
      (plan) => {
        this.#round = null;
        return round.part(() => round.end(plan));
      },
    );
    this.#round = decided;
    // If this rejects, `finish` throws the same error.
    await pending.settle().catch(() => {});
    return decided.finish();
  }

  finishRound(): void {
    this.#round?.tryToFinish();
  }

  turn<Report>(turn: Turn<Report>): void {
    if (this.#turning) this.#missed = true;
    else void this.#turn(turn);
  }

  async #turn<Report>(turn: Turn<Report>): Promise<void> {
    this.#turning = true;
    const rounds = turn.rounds();
    let next = rounds.next();
    while (next.done !== true) {
      let report: Report;
      try {
        report = await this.roundAsync(next.value);
      } catch (error) {
        next = rounds.throw(error);
        continue;
      }
      next = rounds.next(report);
    }
    this.#turning = false;
    turn.ended(next.value);
    if (!this.#missed) return;
    this.#missed = false;
    turn.again();
  }

  /**
   * `SchedulerCalls.enter` for a call that waits for the GPU and changes the state in every part. Between two parts the
   * gate is closed to changes. The call is over when its last part is.
   */
  *#inParts(): Deciding<Plan> {
    const calls = this.#calls;
    const { gate, state } = calls;
    gate.enter();
    let plan: Plan;
    try {
      calls.readClock();
      calls.beginStep();
      const parts = scheduleOnDevice(state, this.#question);
      for (;;) {
        const part = gate.change(() => parts.next());
        if (part.done === true) {
          plan = part.value;
          break;
        }
        gate.suspend();
        yield;
        gate.resume();
      }
      if (calls.log !== null) gate.change(() => calls.flushLog());
    } finally {
      gate.leave();
    }
    state.anomalies.throwFirst();
    return plan;
  }
}
