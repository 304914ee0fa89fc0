import { BlockstepError } from '../../base/errors.js';
import { SchedulerCalls } from '../calls/scheduler-calls.js';
import type { RuledConfig } from '../options/options.js';
import type { Plan } from '../plan/plan.js';
import { scheduleOnDevice } from './device-pass.js';
import { type Deciding, GpuQuestion } from './gpu-question.js';
import { PendingSchedule } from './pending-schedule.js';

/**
 * The calls of a scheduler whose plans a GPU decides. A plan takes some round trips to the GPU, and
 * the event loop may continue meanwhile. All other calls work as where the host decides.
 */
export class DecidedCalls extends SchedulerCalls {
  readonly #question: GpuQuestion;

  constructor(config: RuledConfig) {
    super(config);
    this.#question = new GpuQuestion(this.state);
  }

  /** @throws ERR_BLOCKSTEP_AUTHORITY, since a plan takes more than one call */
  override schedule(): never {
    return this.enter(() => {
      throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the GPU decides: await scheduleAsync()');
    });
  }

  /** See `Scheduler.scheduleAsync`. */
  async scheduleAsync(): Promise<Plan> {
    return await this.begin().settle();
  }

  /**
   * Makes the next plan within this call, however long that takes; the thread is blocked meanwhile.
   * @throws the errors of `Scheduler.scheduleAsync`
   */
  scheduleInPlace(): Plan {
    return this.begin().finish();
  }

  /**
   * Begins a plan, which can be awaited or completed synchronously. @throws the errors of a call of
   * the scheduler at its gate
   */
  begin(): PendingSchedule {
    this.gate.checkFree();
    return new PendingSchedule(this.#inParts());
  }

  /**
   * `SchedulerCalls.enter` for a call that waits for the GPU and changes the state in every part.
   * Between two parts the gate is closed to changes. The call ends with its last part.
   */
  *#inParts(): Deciding<Plan> {
    const { gate, state } = this;
    gate.enter();
    let plan: Plan;
    try {
      this.readClock();
      this.beginStep();
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
      if (this.log !== null) gate.change(() => this.flushLog());
    } finally {
      gate.leave();
    }
    state.anomalies.throwFirst();
    return plan;
  }
}
