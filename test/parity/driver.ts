import { Comparison, type Difference } from './compare.js';
import { TraceConnector } from './connector.js';
import { EventPlayer } from './events.js';
import { type Feature, unsupportedFeatures } from './features.js';
import { TraceKvEvents } from './kv-events.js';
import {
  observeBitmask,
  observeDeferred,
  observeFinal,
  observeOutputs,
  observePlan,
  observePool,
  observeState,
  recordedState,
} from './observe.js';
import { optionsOf } from './options.js';
import { depthOf, Pipeline } from './pipeline.js';
import { TraceGroups } from './rows.js';
import type { FlatTokens, MakeSubject, Subject, SubjectPlan } from './subject.js';
import { Prompts } from './tokens.js';
import { type ConnectorCall, checkTrace, type Trace, type TraceEvent, type TraceStep } from './trace.js';

export interface ReplayOptions {
  /**
   * `state` (the default) compares every field. Reading the state applies what the scheduler had queued for the native
   * core, so `plans` leaves those fields out and reads none. Then schedule() meets the queue as it
   * does in production.
   */
  observe?: 'state' | 'plans';
  /** Features that the scheduler does not offer yet: a trace that needs one is unsupported. */
  lacks?: readonly Feature[];
}

/** The scheduler's plan and update in the step of the first difference. */
export interface Scene {
  step: number;
  sched: unknown;
  upd: unknown;
}

export interface ReplayResult {
  trace: Trace;
  /** Features the trace needs and the scheduler does not offer; if there are any, nothing was replayed. */
  unsupported: string[];
  /** Steps replayed: fewer than the trace has if the scheduler threw. */
  steps: number;
  comparisons: number;
  differences: Difference[];
  scene: Scene | null;
  /** The error that the scheduler threw, if it threw one. */
  error: unknown;
}

/** A batch in flight. */
interface Batch {
  step: TraceStep;
  plan: SubjectPlan;
  ids: string[];
}

/**
 * Replays a trace on a scheduler and compares everything that the trace recorded. A difference does
 * not end the replay, since the trace alone drives the following steps. An error of the scheduler
 * does.
 */
export function replay(trace: Trace, make: MakeSubject, options: ReplayOptions = {}): ReplayResult {
  const result = {
    trace,
    unsupported: [] as string[],
    steps: 0,
    scene: null as Scene | null,
    error: null as unknown,
  };
  const comparison = new Comparison();
  const problems = checkTrace(trace);
  for (const { path, kind, detail } of problems) comparison.differ(kind, detail, path);
  if (problems.every((problem) => problem.kind === 'unknown field')) {
    result.unsupported = unsupportedFeatures(trace, options.lacks);
    if (result.unsupported.length === 0) {
      try {
        const driver = new Driver(trace, make, options.observe ?? 'state', comparison);
        result.steps = driver.run();
        result.scene = driver.scene;
        result.error = driver.error;
      } catch (error) {
        // The scheduler refuses the configuration.
        result.error = error;
        comparison.differ('no error', String(error), 'config');
      }
    }
  }
  return { ...result, comparisons: comparison.comparisons, differences: comparison.differences };
}

/** Rows [id, tokens] as the flat arrays of a batch: entries that have no row get no tokens. */
export function flatten(
  ids: readonly string[],
  rows: readonly (readonly [string, readonly number[]])[],
): FlatTokens {
  const byId = new Map(rows);
  const tokens = ids.flatMap((id) => byId.get(id) ?? []);
  return { tokens: Int32Array.from(tokens), counts: Int32Array.from(ids, (id) => byId.get(id)?.length ?? 0) };
}

/** Ids of the requests of a trace, in the order of their first add. */
function idsOf({ steps }: Trace): string[] {
  return steps.flatMap(({ events }) => events.flatMap((event) => (event.t === 'add' ? event.id : [])));
}

/** Drives one scheduler through one trace. */
class Driver {
  scene: Scene | null = null;
  error: unknown = null;
  readonly #trace: Trace;
  readonly #comparison: Comparison;
  readonly #readsState: boolean;
  readonly #player: EventPlayer;
  readonly #connector: TraceConnector | null;
  readonly #kvEvents: TraceKvEvents;
  readonly #groups: TraceGroups | undefined;
  readonly #subject: Subject;
  readonly #pipeline: Pipeline<Batch>;
  #clock = 0;

  constructor(trace: Trace, make: MakeSubject, observe: 'state' | 'plans', comparison: Comparison) {
    this.#trace = trace;
    this.#comparison = comparison;
    this.#readsState = observe === 'state';
    this.#pipeline = new Pipeline(depthOf(trace.config));
    this.#kvEvents = new TraceKvEvents(trace.config.kv_groups?.map(({ block_size }) => block_size));
    this.#groups = TraceGroups.of(trace.config, idsOf(trace));
    this.#connector = trace.connector === null ? null : new TraceConnector(this.#groups !== undefined);
    this.#subject = make(optionsOf(trace, this.#connector, () => this.#clock, this.#kvEvents));
    this.#player = new EventPlayer(
      this.#subject,
      trace,
      new Prompts(trace),
      trace.config.policy,
      this.#connector,
    );
  }

  /** Returns the number of steps that went through without an error. */
  run(): number {
    const { steps, final, n_steps, n_requests } = this.#trace;
    try {
      for (const [i, step] of steps.entries()) {
        if (!this.#guard(`steps[${i}]`, () => this.#step(step, `steps[${i}]`))) return i;
      }
      this.#guard('final', () =>
        this.#comparison.compareRecorded(final, observeFinal(this.#subject, this.#groups), 'final'),
      );
      this.#comparison.compare(n_steps, steps.length, 'n_steps');
      this.#comparison.compare(n_requests, idsOf(this.#trace).length, 'n_requests');
      return steps.length;
    } finally {
      this.#subject.dispose();
    }
  }

  #guard(path: string, action: () => void): boolean {
    try {
      action();
      return true;
    } catch (error) {
      this.error = error;
      this.#comparison.differ('no error', String(error), path);
      return false;
    }
  }

  #step(step: TraceStep, path: string): void {
    this.#clock = step.step;
    const before = this.#comparison.differences.length;
    for (const [i, event] of step.events.entries()) this.#apply(event, `${path}.events[${i}]`);
    this.#compareCalls(step.conn_pre, `${path}.conn_pre`);
    const sched = step.sched === null ? null : this.#schedule(step, `${path}.sched`);
    for (const [i, event] of (step.mid ?? []).entries()) this.#apply(event, `${path}.mid[${i}]`);
    this.#compareCalls(step.conn_mid, `${path}.conn_mid`);
    const upd = this.#update(step, sched === null ? 0 : sched.total, `${path}.upd`);
    this.#defer(step, sched, `${path}.defer`);
    if (this.#readsState) this.#subject.verify();
    if (this.#comparison.differences.length > before) this.scene ??= { step: step.step, sched, upd };
  }

  /** The connector calls since the last time, under the name that they have in a trace. */
  #calls(): { conn?: ConnectorCall[] } {
    return this.#connector ? { conn: this.#connector.drainCalls() } : {};
  }

  /** Compares the connector calls that events have caused. */
  #compareCalls(recorded: readonly ConnectorCall[] = [], path: string): void {
    if (this.#connector) this.#comparison.compare(recorded, this.#connector.drainCalls(), path);
  }

  #schedule(step: TraceStep, path: string): ReturnType<typeof observePlan> {
    const plan = this.#subject.schedule();
    const seen = { ...observePlan(plan, this.#subject.core, this.#groups?.count), ...this.#calls() };
    this.#pipeline.push({ step, plan, ids: seen.tokens.map(([id]) => id) });
    // A trace without speculative decoding does not record that nothing was speculated.
    const { free, usage, ...recorded } = { spec: [], ...step.sched };
    // Of a batch whose sampling is deferred the bitmask stands there.
    const bitmask = step.defer ? {} : { bitmask: observeBitmask(plan) };
    this.#comparison.compareRecorded(recorded, { ...seen, ...bitmask }, path);
    if (this.#readsState) {
      this.#comparison.compareRecorded({ free, usage }, observePool(this.#subject.core), path);
    }
    return seen;
  }

  #update(step: TraceStep, scheduled: number, path: string): unknown {
    const batch = this.#pipeline.shift(scheduled);
    if (!batch || !step.upd) {
      this.#comparison.compare(step.upd?.for ?? null, batch?.step.step ?? null, path);
      if (!batch) return null;
    }
    const sample = (batch.step.sample ?? []).map(([id, ...tokens]) => [id, tokens] as const);
    const kv = step.upd?.kv ?? null;
    const output = kv === null ? undefined : this.#connector?.outputOf(kv);
    const tokens = flatten(batch.ids, sample);
    const rows = observeOutputs(this.#subject.update(batch.plan, tokens, output));
    const calls = this.#calls();
    if (step.upd?.drafts) this.#subject.updateDraftTokens(batch.plan, flatten(batch.ids, step.upd.drafts));
    if (!step.upd) return rows;
    const { for: source, out, conn, kv: _given, drafts: _also, kv_events, ...state } = step.upd;
    const seen = { for: batch.step.step, out: rows, ...calls };
    this.#comparison.compareRecorded({ for: source, out, ...(conn ? { conn } : {}) }, seen, path);
    if (kv_events) {
      this.#comparison.compare(kv_events, this.#kvEvents.drain(kv_events), `${path}.kv_events`);
    }
    if (!this.#readsState) return seen;
    const seenState = observeState(this.#subject, this.#groups);
    this.#comparison.compareRecorded(recordedState(state, this.#subject), seenState, path);
    return { ...seen, ...seenState };
  }

  /** Compares a batch that had to wait for the tokens of the one before. */
  #defer(step: TraceStep, sched: ReturnType<typeof observePlan> | null, path: string): void {
    const isDeferred = sched !== null && sched.pend === 1 && sched.total > 0;
    if (!isDeferred || !step.defer) {
      this.#comparison.compare(step.defer !== undefined, isDeferred, path);
      return;
    }
    const { plan, ids } = this.#pipeline.last;
    const { drafts, ...recorded } = step.defer;
    if (drafts !== null) this.#subject.replaceDraftTokens(plan, flatten(ids, drafts));
    this.#comparison.compareRecorded(recorded, observeDeferred(plan), path);
  }

  #apply(event: TraceEvent, path: string): void {
    const recorded = event as Record<string, unknown>;
    for (const [field, seen] of Object.entries(this.#player.play(event))) {
      this.#comparison.compare(recorded[field], seen, `${path}.${field}`);
    }
  }
}
