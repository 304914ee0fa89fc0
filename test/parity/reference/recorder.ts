import { TraceConnector } from '../connector.js';
import { flatten } from '../driver.js';
import { EventPlayer } from '../events.js';
import { TraceKvEvents } from '../kv-events.js';
import {
  observeBitmask,
  observeDeferred,
  observeFinal,
  observeOutputs,
  observePlan,
  observePool,
  observeState,
} from '../observe.js';
import { optionsOf, type Rules } from '../options.js';
import { depthOf, Pipeline } from '../pipeline.js';
import { TraceGroups } from '../rows.js';
import { outputToken, Prompts } from '../tokens.js';
import type { ConnectorCall, Trace, TraceEvent, TraceKvEvent, TraceStep } from '../trace.js';
import { groupRecipe } from './group-recipe.js';
import type { Faults } from './kv/faults.js';
import type { ReferencePlan } from './plan.js';
import { Random } from './random.js';
import { deepRecipe, type Recipe, randomRecipe } from './recipe.js';
import { type Choice, drawRules } from './rules/draw-rules.js';
import { ReferenceScheduler } from './scheduler.js';
import { Worker } from './worker.js';
import { Workload } from './workload.js';

interface Batch {
  step: TraceStep;
  plan: ReferencePlan;
}

/**
 * Makes a trace by running the reference scheduler on a random workload. The same seed gives the same trace. A workload in which
 * vLLM counts fewer than 0 computed tokens is given up for another one: no scheduler has to follow it there.
 */
export function generateTrace(seed: number, choice: Choice = 'may'): Trace {
  return generate(seed, randomRecipe, {}, choice);
}

/** The same with three batches in flight. */
export function generateDeepTrace(seed: number, choice: Choice = 'may'): Trace {
  return generate(seed, deepRecipe, {}, choice);
}

/**
 * The same with KV cache groups.
 * @param faults of vLLM, which the reference is to have too
 */
export function generateGroupTrace(
  seed: number,
  faults: Partial<Faults> = {},
  choice: Choice = 'may',
): Trace {
  return generate(seed, (random) => groupRecipe(random, choice === 'august'), faults, choice);
}

function generate(
  seed: number,
  recipeOf: (random: Random) => Recipe,
  faults: Partial<Faults>,
  choice: Choice,
): Trace {
  for (let attempt = 0; ; attempt++) {
    const random = new Random(seed + 1_000_003 * attempt);
    const { recipe, rules } = drawRules(choice, recipeOf(random), random);
    const recorder = new Recorder(seed, recipe, rules, random, faults);
    const trace = recorder.record();
    if (!recorder.isOverdrawn) return trace;
  }
}

/** Runs the reference scheduler and writes down what a recording of vLLM would hold. */
class Recorder {
  readonly #trace: Trace;
  readonly #recipe: Recipe;
  readonly #random: Random;
  readonly #workload: Workload;
  readonly #connector: TraceConnector | null;
  readonly #worker: Worker | null;
  readonly #kvEvents = new TraceKvEvents();
  readonly #groups: TraceGroups | undefined;
  /** In the order of add. */
  readonly #ids: string[] = [];
  readonly #player: EventPlayer;
  readonly #subject: ReferenceScheduler;
  readonly #pipeline: Pipeline<Batch>;
  /** Tokens that the fake model has sampled for each answer, in flight included. */
  readonly #sampled = new Map<string, number>();
  /** vLLM counted fewer than 0 computed tokens. */
  isOverdrawn = false;
  /** Ids of the batch that was scheduled last, and of the one before; empty ones are none. */
  #batches: [last: string[], before: string[]] = [[], []];

  constructor(seed: number, recipe: Recipe, rules: Rules, random: Random, faults: Partial<Faults>) {
    const name = `generated ${seed}`;
    const empty = {
      free: 0,
      usage: 0,
      fq: 0,
      cached: 0,
      run: [],
      wait: [],
      skip: [],
      free_queue: [],
      cached_ids: [],
    };
    this.#trace = {
      version: recipe.config.kv_groups ? 3 : 2,
      name,
      seed,
      vllm_commit: 'none: the reference scheduler',
      config: recipe.config,
      connector: recipe.connector,
      workload: recipe,
      eos_id: 2,
      stop_id: 3,
      coverage: {},
      n_requests: 0,
      n_steps: 0,
      final: { ...empty, requests_left: [] },
      steps: [],
      rules,
    };
    this.#recipe = recipe;
    this.#random = random;
    this.#workload = new Workload(recipe, random);
    this.#groups = TraceGroups.of(recipe.config, this.#ids);
    this.#connector = recipe.connector && new TraceConnector(this.#groups !== undefined);
    this.#worker = recipe.connector && new Worker(recipe.connector, random, recipe.config);
    const options = optionsOf(this.#trace, this.#connector, () => 0, this.#kvEvents);
    this.#subject = new ReferenceScheduler(options, faults);
    this.#player = new EventPlayer(
      this.#subject,
      this.#trace,
      new Prompts(this.#trace),
      recipe.config.policy,
      this.#connector,
    );
    this.#pipeline = new Pipeline(depthOf(recipe.config));
  }

  record(): Trace {
    const { steps } = this.#trace;
    while (steps.length < this.#recipe.steps) this.#step(this.#workload.events(steps.length, this.#subject));
    this.#step([{ t: 'pause', state: 'UNPAUSED' }]);
    // Drained as far as it drains: a request that outgrew the pool never ends.
    const limit = steps.length + 200;
    const isBusy = () => this.#subject.numUnfinished > 0 || this.#worker?.isBusy === true;
    while (isBusy() && steps.length < limit) this.#step([]);
    while (steps[steps.length - 1].upd !== null && steps.length <= limit) this.#step([], false);
    this.#trace.n_steps = steps.length;
    this.#trace.n_requests = this.#workload.numRequests;
    this.#trace.final = observeFinal(this.#subject, this.#groups);
    return this.#trace;
  }

  #step(events: TraceEvent[], mayRun = true): void {
    const step: TraceStep = { step: this.#trace.steps.length, events: [], sched: null, upd: null };
    this.#trace.steps.push(step);
    step.events = events.map((event) => this.#apply(event));
    Object.assign(step, this.#calls('conn_pre', step.step));
    const idles = !mayRun || (this.#subject.numUnfinished === 0 && this.#random.chance(0.5));
    if (!idles) this.#schedule(step);
    if (!idles && this.#random.chance(this.#recipe.abortRate / 2)) {
      step.mid = [this.#apply(this.#workload.abort(this.#subject))];
      Object.assign(step, this.#calls('conn_mid', step.step));
    }
    const batch = this.#pipeline.shift(step.sched?.total ?? 0);
    if (batch) this.#update(step, batch);
    if (step.sched?.pend === 1 && step.sched.total > 0) this.#defer(step, this.#pipeline.last.plan);
  }

  /** The batch before is updated, so that grammars have seen its tokens: now this one can be sampled. */
  #defer(step: TraceStep, plan: ReferencePlan): void {
    let drafts: [string, number[]][] | null = null;
    if (this.#recipe.config.num_speculative_tokens > 0) {
      // The workers have drafted for the requests of the batch before, whether this one has them or not.
      drafts = this.#batches[1].map((id) => [id, this.#draft(this.#recipe.config.num_speculative_tokens)]);
      this.#subject.replaceDraftTokens(
        plan,
        flatten(
          plan.requests.map(({ id }) => id),
          drafts,
        ),
      );
    }
    step.defer = { drafts, ...observeDeferred(plan) };
  }

  #draft(count: number): number[] {
    return Array.from({ length: count }, () => this.#random.integer(90000, 90999));
  }

  #schedule(step: TraceStep): void {
    const plan = this.#subject.schedule();
    const seen = observePlan(plan, this.#subject.core, this.#groups?.count);
    if (seen.total > 0) this.#batches = [seen.tokens.map(([id]) => id), this.#batches[0]];
    const bitmask = seen.pend === 1 && seen.total > 0 ? {} : { bitmask: observeBitmask(plan) };
    const calls = this.#calls('conn', step.step);
    step.sched = { ...seen, ...bitmask, ...observePool(this.#subject.core), ...calls };
    step.sample = plan.entries
      .filter(({ request }) => !request.isPrefillChunk)
      .map(({ request, drafts, kind }) => {
        const answer = `${request.id} ${request.chunk}`;
        const from = this.#sampled.get(answer) ?? 0;
        // Drafts of an admission were made by nobody, so that none is accepted.
        const count = 1 + this.#random.integer(0, kind === 0 ? drafts.length : 0);
        this.#sampled.set(answer, from + count);
        const { idx, eosAt, stopAt } = this.#workload.ending(request.id, request.chunk);
        const tokens = Array.from({ length: count }, (_, i) =>
          outputToken(this.#trace, idx, from + i, { eosAt, stopAt }),
        );
        return [request.id, ...tokens];
      });
    this.#pipeline.push({ step, plan });
  }

  #update(step: TraceStep, { step: source, plan }: Batch): void {
    const rows = new Map((source.sample ?? []).map(([id, ...tokens]) => [id, tokens]));
    const tokensOf = (id: string) => rows.get(id) ?? [];
    const ids = plan.requests.map((request) => request.id);
    const tokens = Int32Array.from(ids.flatMap(tokensOf));
    // Rows that fail while an empty batch is in flight would come with a later update.
    const mayFail = ids.length > 0 || source === step;
    const kv = this.#worker?.report(source.step, mayFail, ids) ?? null;
    const counts = Int32Array.from(ids, (id) => tokensOf(id).length);
    const output = kv === null ? undefined : this.#connector?.outputOf(kv);
    const out = observeOutputs(this.#subject.update(plan, { tokens, counts }, output));
    this.isOverdrawn ||= plan.requests.some((request) => request.isOverdrawn);
    const calls = this.#calls('conn', step.step);
    if (kv?.invalid) this.#forget(plan);
    const { num_speculative_tokens: k, async_scheduling, spec_method } = this.#recipe.config;
    let drafts: [string, number[]][] | null | undefined;
    if (k > 0 && !async_scheduling) {
      const count = () => (spec_method === 'ngram' ? this.#random.integer(0, k) : k);
      drafts = ids.map((id) => [id, this.#draft(count())]);
      if (ids.length > 0) this.#subject.updateDraftTokens(plan, flatten(ids, drafts));
      else drafts = null;
    }
    this.#subject.verify();
    step.upd = {
      for: source.step,
      out,
      ...(this.#connector ? { kv } : {}),
      ...calls,
      ...(drafts === undefined ? {} : { drafts }),
      ...(this.#recipe.config.kv_events === 1 ? { kv_events: this.#told() } : {}),
      ...observeState(this.#subject, this.#groups),
    };
  }

  /** The events of the cache since the last time; each is an event of its own, so that none has holes. */
  #told(): TraceKvEvent[] {
    return this.#kvEvents.drain([]).filter((event) => event !== null);
  }

  /** The connector calls since the last time, under the name that they get in the trace. */
  #calls(name: 'conn' | 'conn_pre' | 'conn_mid', step: number): { [key in typeof name]?: ConnectorCall[] } {
    if (!this.#connector) return {};
    const calls = this.#connector.drainCalls();
    this.#worker?.watch(calls, step, this.#subject);
    return { [name]: calls };
  }

  /** Forgets the tokens that were sampled from a failed load, so that the model samples them again. */
  #forget(plan: ReferencePlan): void {
    if (this.#recipe.config.async_scheduling) return;
    for (const request of plan.requests) {
      this.#sampled.set(`${request.id} ${request.chunk}`, request.numOutputTokens);
    }
  }

  /** Carries an event out and adds its result to it. */
  #apply(event: TraceEvent): TraceEvent {
    if (event.t === 'add') this.#ids.push(event.id);
    const outcome = this.#player.play(event);
    // The tokens in flight of these requests are dropped, so the model samples them again.
    for (const id of outcome.preempted ?? []) {
      const request = this.#subject.get(id);
      if (request) this.#sampled.set(`${id} ${request.chunk}`, request.numOutputTokens);
    }
    return { ...event, ...outcome } as TraceEvent;
  }
}
