import { BlockstepError, show } from '../../base/errors.js';
import { enterCallee, leaveCallee } from '../../base/foreign/callee.js';
import { Core } from '../../core/core.js';
import { LogWriter } from '../log/log.js';
import { coreConfig } from '../options/core-config.js';
import type { LogSink, RuledConfig } from '../options/options.js';
import type { Plan } from '../plan/plan.js';
import { askConnector, endGroups, schedule } from '../schedule/schedule.js';
import { purgeWaiting } from '../state/guards.js';
import { SchedulerState } from '../state/scheduler-state.js';
import { maySteady } from '../steady/joining.js';
import { mayRepeat, Repeat } from '../steady/repeat.js';
import { Steady } from '../steady/steady.js';
import { Aborts } from './aborts.js';
import { CallGate } from './call-gate.js';
import { ConnectorView, makePins } from './connector-view.js';

/**
 * The frame of every public call of a scheduler: it passes the gate, reads the clock once, and is
 * written to the log.
 */
export class SchedulerCalls {
  readonly state: SchedulerState;
  readonly gate = new CallGate();
  readonly log: LogWriter | null;
  readonly aborts = new Aborts(this);
  /** Steps that need no rule; null if the options exclude such steps. */
  readonly repeat: Repeat | null;

  /**
   * @throws ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY; the error of the connector or the log
   * sink
   */
  constructor(config: RuledConfig) {
    const core = new Core(coreConfig(config));
    try {
      this.log = config.log === null ? null : this.#openLog(config.log, config, core);
      this.state = new SchedulerState(config, core, this.log);
      const steady = maySteady(config) ? new Steady(this.state) : null;
      this.state.steady = steady;
      this.repeat = steady !== null && mayRepeat(this.state) ? new Repeat(this, steady) : null;
      this.#bindConnector();
    } catch (error) {
      core.dispose();
      throw error;
    }
  }

  /**
   * Runs one public call: passes the gate, reads the clock once, and writes its commands to the
   * log.
   * @throws the errors of `CallGate.enter` and `act`; ERR_BLOCKSTEP_BAD_ARG if `now` returns no
   * finite number; ERR_BLOCKSTEP_ANOMALY in strict mode, after the call has been carried out
   */
  enter<T>(act: () => T): T {
    this.gate.enter();
    this.repeat?.end();
    let result: T;
    try {
      this.readClock();
      result = act();
      this.state.borrower?.cleanUp();
      if (this.log !== null) this.gate.change(() => this.flushLog());
    } finally {
      this.gate.leave();
    }
    this.state.anomalies.throwFirst();
    return result;
  }

  /** In strict mode, throws for finished or untracked requests in the waiting queues before a step plans anything. */
  #checkWaiting(): void {
    if (!this.state.config.strict) return;
    purgeWaiting(this.state);
    this.state.anomalies.throwFirst();
  }

  /** See `Scheduler.schedule`. */
  schedule(): Plan {
    const repeated = this.repeat === null ? null : this.repeat.plan();
    if (repeated !== null) return repeated;
    return this.enter(() => {
      this.beginStep();
      return this.gate.change(() => schedule(this.state));
    });
  }

  /**
   * Prepares the planning of a step: carries out the pending aborts, and writes the call to the
   * log.
   * @throws ERR_BLOCKSTEP_PIPELINE_FULL; ERR_BLOCKSTEP_ANOMALY in strict mode
   */
  beginStep(): void {
    const { inFlight, config, now } = this.state;
    if (inFlight.length >= config.pipelineDepth) {
      const message = `${inFlight.length} plans are in flight already`;
      throw new BlockstepError('ERR_BLOCKSTEP_PIPELINE_FULL', message);
    }
    this.aborts.drainInCall();
    this.#checkWaiting();
    this.log?.schedule(now);
  }

  /** Writes the native commands so far to the log. Does nothing without a log, or once poisoned. */
  flushLog(): void {
    if (this.log === null || this.gate.isPoisoned) return;
    this.state.core.flush();
    this.log.commands(this.state.core.native.drainLog());
  }

  /**
   * Shuts the connector down, flushes the log and frees the native memory, once. The memory is freed even if the log
   * sink throws.
   */
  dispose(): void {
    this.gate.dispose(() => {
      try {
        this.state.connector?.tellShutdown();
        this.flushLog();
      } finally {
        this.state.core.dispose();
      }
    });
  }

  /**
   * Gives the connector its view and its pins. If the connector throws, the constructor throws too,
   * because such a connector is useless.
   */
  #bindConnector(): void {
    const { connector } = this.state;
    connector?.methods.bind?.(new ConnectorView(this));
    if (connector?.protection.includes('pin')) connector.methods.bindPins?.(makePins(this));
  }

  /**
   * Reads the clock, once per call. @throws ERR_BLOCKSTEP_BAD_ARG if `now` returns no finite
   * number; the error of `now`
   */
  readClock(): void {
    const before = enterCallee('now');
    let now: number;
    try {
      now = this.state.config.now();
    } finally {
      leaveCallee(before);
    }
    if (typeof now !== 'number' || !Number.isFinite(now)) {
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `now() must return milliseconds, got ${show(now)}`);
    }
    this.state.now = now;
  }

  /** @param plan of a repeated step, whose common prefixes the last `run` has left */
  endGroups(plan: Plan): void {
    endGroups(this.state, plan, true);
  }

  /** @param plan of a repeated step */
  askConnector(plan: Plan): void {
    askConnector(this.state, plan);
  }

  /**
   * Opens the log. A sink that throws would leave a gap in the log, so it poisons the scheduler.
   */
  #openLog(sink: LogSink, config: RuledConfig, core: Core): LogWriter {
    const { gate } = this;
    const log = new LogWriter({ write: (bytes) => gate.change(() => writeTo(sink, bytes)) }, config);
    core.native.record(true);
    return log;
  }
}

function writeTo(sink: LogSink, bytes: Uint8Array): void {
  const before = enterCallee('log.write');
  try {
    sink.write(bytes);
  } finally {
    leaveCallee(before);
  }
}
