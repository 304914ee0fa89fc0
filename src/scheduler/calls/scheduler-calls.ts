import { enterCallee, leaveCallee } from '../../base/callee.js';
import { BlockstepError, show } from '../../base/errors.js';
import { Core } from '../../core/core.js';
import type { Deciding } from '../device/gpu-question.js';
import { abort, abortTargets, isAbortable } from '../life/abort.js';
import { LogWriter } from '../log/log.js';
import { coreConfig } from '../options/core-config.js';
import type { LogSink, SchedulerConfig } from '../options/options.js';
import type { Request } from '../request/request.js';
import { purgeWaiting } from '../state/guards.js';
import { SchedulerState } from '../state/scheduler-state.js';
import { CallGate } from './call-gate.js';
import { makePins } from './connector-pins.js';
import { ConnectorView } from './connector-view.js';

/**
 * How every public call of a scheduler runs: behind the gate, under one reading of the clock, written to the log; and the
 * aborts that come from inside a callback, which wait until the call that is running is over.
 */
export class SchedulerCalls {
  readonly state: SchedulerState;
  readonly gate = new CallGate();
  readonly log: LogWriter | null;
  readonly #lateAborts = new Set<Request>();

  /** May refuse a new request whose fields are good, by its number of prompt tokens: it throws. */
  admitNew: (numTokens: number) => void = () => {};

  constructor(config: SchedulerConfig) {
    const core = new Core(coreConfig(config));
    try {
      this.log = config.log === null ? null : this.#openLog(config.log, config, core);
      this.state = new SchedulerState(config, core, this.log);
      this.#bindConnector();
    } catch (error) {
      core.dispose();
      throw error;
    }
  }

  /** Aborts wait to be carried out by the next call that steps. */
  get hasLateAborts(): boolean {
    return this.#lateAborts.size > 0;
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

  abort(keys: readonly (string | number)[]): string[] {
    if (this.gate.isBusy) {
      // Resolved now: the id may belong to another request by then.
      for (const target of abortTargets(this.state, keys)) this.#lateAborts.add(target);
      return [];
    }
    return this.enter(() => this.#abort(abortTargets(this.state, keys)));
  }

  /** Carries out the aborts that wait, as a call of its own would: they have their own clock and commands in the log. */
  drainLateAborts(): void {
    while (this.#lateAborts.size > 0) {
      const targets = new Set(this.#lateAborts);
      this.#lateAborts.clear();
      this.#abort(targets);
      this.gate.change(() => this.flushLog());
    }
  }

  /** In strict mode what does not belong into the waiting queues is thrown before a step plans anything. */
  #checkWaiting(): void {
    if (!this.state.config.strict) return;
    purgeWaiting(this.state);
    this.state.anomalies.throwFirst();
  }

  /** What stands before the planning of every step. @throws ERR_BLOCKSTEP_PIPELINE_FULL */
  beginStep(): void {
    const { inFlight, config, now } = this.state;
    if (inFlight.length >= config.pipelineDepth) {
      const message = `${inFlight.length} plans are in flight already`;
      throw new BlockstepError('ERR_BLOCKSTEP_PIPELINE_FULL', message);
    }
    this.drainLateAborts();
    this.#checkWaiting();
    this.log?.schedule(now);
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
        this.state.connector?.tellShutdown();
        this.flushLog();
      } finally {
        this.state.core.dispose();
      }
    });
  }

  /** A connector that cannot take what it is given is of no use. */
  #bindConnector(): void {
    const { connector } = this.state;
    connector?.methods.bind?.(new ConnectorView(this));
    if (connector?.protection.includes('pin')) connector.methods.bindPins?.(makePins(this));
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

  #abort(targets: ReadonlySet<Request>): string[] {
    const abortable = Array.from(targets).filter((target) => isAbortable(this.state, target));
    if (abortable.length === 0) return [];
    this.log?.abort(
      this.state.now,
      abortable.map((target) => target.handle),
    );
    return abort(this.state, abortable);
  }

  /** A sink that throws leaves a hole in the log, and poisons. */
  #openLog(sink: LogSink, config: SchedulerConfig, core: Core): LogWriter {
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
