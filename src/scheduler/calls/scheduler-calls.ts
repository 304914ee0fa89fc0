import { enterCallee, leaveCallee } from '../../base/callee.js';
import { BlockstepError, show } from '../../base/errors.js';
import { tellShutdown } from '../connector/ask-connector.js';
import { makePins } from '../connector/block-pins.js';
import { KvView } from '../connector/kv-view.js';
import type { Deciding } from '../device/batch.js';
import { type LogSink, LogWriter } from '../log/log.js';
import type { SchedulerConfig } from '../options/options.js';
import { purgeWaiting } from '../state/guards.js';
import { SchedulerState } from '../state/scheduler-state.js';
import { Aborts } from './aborts.js';
import { CallGate } from './call-gate.js';

/**
 * How every public call of a scheduler runs: behind the gate, under one reading of the clock, written to the log.
 */
export class SchedulerCalls {
  readonly state: SchedulerState;
  readonly gate = new CallGate();
  readonly log: LogWriter | null;
  readonly aborts = new Aborts(this);

  constructor(config: SchedulerConfig) {
    this.state = new SchedulerState(config);
    this.log = config.log === null ? null : this.#openLog(config.log);
    this.state.facts = this.log;
    this.#bindConnector();
  }

  /** Runs one public call: reads the clock, refuses calls from inside a callback, hands commands to the log. */
  enter<T>(act: () => T): T {
    this.gate.enter();
    let result: T;
    try {
      this.#readClock();
      result = act();
      if (this.log !== null) this.gate.change(() => this.flushLog());
    } finally {
      this.gate.leave();
    }
    this.state.anomalies.throwFirst();
    return result;
  }

  /** As `enter`, for a call that waits for the GPU and changes the state in every part. It is over when the last is. */
  *enterInParts<T>(begin: () => Deciding<T>): Deciding<T> {
    this.gate.enter();
    let result: T;
    try {
      this.#readClock();
      const parts = begin();
      for (;;) {
        const part = this.gate.change(() => parts.next());
        if (part.done === true) {
          result = part.value;
          break;
        }
        this.gate.suspend();
        yield;
        this.gate.resume();
      }
      if (this.log !== null) this.gate.change(() => this.flushLog());
    } finally {
      this.gate.leave();
    }
    this.state.anomalies.throwFirst();
    return result;
  }

  /** In strict mode what does not belong into the waiting queues is thrown before a step plans anything. */
  checkWaiting(): void {
    if (!this.state.config.strict) return;
    purgeWaiting(this.state);
    this.state.anomalies.throwFirst();
  }

  flushLog(): void {
    if (this.log === null || this.gate.isPoisoned) return;
    this.state.core.flush();
    this.log.commands(this.state.core.native.takeLog());
  }

  /** Frees the native memory, once. */
  dispose(): void {
    this.gate.dispose(() => {
      try {
        tellShutdown(this.state);
        this.flushLog();
      } finally {
        this.state.core.dispose();
      }
    });
  }

  /** A connector that cannot take what it is given is of no use. */
  #bindConnector(): void {
    const { connector, core } = this.state;
    try {
      connector?.bind?.(new KvView(this));
      if (connector?.protection.includes('pin')) connector.bindPins?.(makePins(this));
    } catch (error) {
      core.dispose();
      throw error;
    }
  }

  #readClock(): void {
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

  /** A sink that throws leaves a hole in the log, and poisons. */
  #openLog(sink: LogSink): LogWriter {
    const { state, gate } = this;
    try {
      const log = new LogWriter({ write: (bytes) => gate.change(() => writeTo(sink, bytes)) }, state.config);
      state.core.native.record(true);
      return log;
    } catch (error) {
      state.core.dispose();
      throw error;
    }
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
