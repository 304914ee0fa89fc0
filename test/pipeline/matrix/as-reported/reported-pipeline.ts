import { Clients } from '../stages/clients.js';
import { Commands } from '../stages/commands.js';
import { Flow, shapeOf } from '../stages/flow.js';
import { OmniAdapter } from '../stages/omni-adapter.js';
import type { RequestState, Subject, SubjectOptions } from '../subject.js';
import type { ReportedGuards } from './reported-guards.js';
import { type ReportedPlan, ReportedRequest, ReportedScheduler } from './reported-scheduler.js';

/** Ticks that a step of each stage takes. */
export const STEP_TICKS = [1, 1, 2] as const;

/** Tokens of the placeholder prompt that a request is submitted to a stage with. */
const PROMPT = 4;

interface Stage {
  readonly scheduler: ReportedScheduler;
  readonly adapter: OmniAdapter<ReportedRequest> | null;
  readonly commands: Commands;
  flight: { readonly plan: ReportedPlan; readonly until: number } | null;
}

/**
 * Three stages as vllm-omni had them when #3774 was reported. They have vLLM's scheduler, whose
 * finish goes by status, and an adapter that borrows requests while a step is planned. Test code:
 * it shows the failures that the guards are against.
 */
export class ReportedPipeline implements Subject {
  died: string | null = null;
  readonly #stages: readonly Stage[];
  readonly #flow: Flow;
  readonly #clients = new Clients();
  readonly #shapes: SubjectOptions;
  #now = 0;

  constructor(options: SubjectOptions, guards: ReportedGuards) {
    const { maxNumSeqs, seed } = options;
    this.#shapes = options;
    this.#flow = new Flow(seed, (id, index, finished) => this.#clients.sound(id, index, finished));
    this.#stages = STEP_TICKS.map((_, stage) => {
      const commands = new Commands(seed * 8 + stage);
      const adapter = stage === 0 ? null : this.#makeAdapter(stage, maxNumSeqs);
      const scheduler = new ReportedScheduler(maxNumSeqs, guards, adapter);
      return { scheduler, adapter, commands, flight: null };
    });
  }

  #makeAdapter(stage: number, maxNumSeqs: number): OmniAdapter<ReportedRequest> {
    return new OmniAdapter({
      stage,
      maxNumSeqs,
      receive: (key) => this.#flow.transport.remove(key, this.#now),
      onChunk: (request) => this.#receiveChunk(stage, request as ReportedRequest),
      meanwhile: () => this.#tell(stage, true),
    });
  }

  submit(id: string, seed: number): void {
    this.#clients.begin(id);
    this.#flow.begin(id, shapeOf(seed, this.#shapes));
    for (const { commands } of this.#stages) commands.send('add', id, this.#now);
  }

  abort(id: string): void {
    if (!this.#clients.abort(id)) return;
    for (const { commands } of this.#stages) commands.send('abort', id, this.#now);
  }

  advance(): void {
    this.#now++;
    for (let stage = 0; stage < this.#stages.length && this.died === null; stage++) {
      try {
        this.#advance(stage);
      } catch (error) {
        this.died = `stage ${stage}: ${(error as Error).message}`;
      }
    }
  }

  read(id: string): RequestState {
    return this.#clients.read(id);
  }

  get guards(): Record<string, number> {
    const sum: Record<string, number> = {};
    for (const { scheduler } of this.#stages)
      for (const [guard, count] of Object.entries(scheduler.found)) sum[guard] = (sum[guard] ?? 0) + count;
    return sum;
  }

  get lostPlaces(): number {
    return this.#stages.reduce((sum, { scheduler }) => sum + scheduler.lostPlaces, 0);
  }

  #advance(stage: number): void {
    const { scheduler, adapter, flight } = this.#stages[stage] as Stage;
    if (flight !== null && flight.until <= this.#now) {
      scheduler.update(flight.plan, ({ id }) => {
        const stops = this.#flow.step(stage, id, this.#now);
        // The last stage computes its whole input at once, and generates nothing.
        return { stops, tokens: stage === 2 ? 0 : 1 };
      });
      (this.#stages[stage] as Stage).flight = null;
    }
    this.#tell(stage, false);
    if (stage === 0) this.#tell(stage, true);
    if ((this.#stages[stage] as Stage).flight === null) {
      const plan = scheduler.schedule();
      if (plan.numRequests > 0)
        (this.#stages[stage] as Stage).flight = { plan, until: this.#now + (STEP_TICKS[stage] as number) };
    }
    adapter?.poll();
  }

  #tell(stage: number, inside: boolean): void {
    const { scheduler, commands } = this.#stages[stage] as Stage;
    for (const { kind, id } of commands.drain(this.#now, inside)) {
      if (kind === 'add') scheduler.add(new ReportedRequest(id, stage === 2 ? 0 : PROMPT));
      else scheduler.finish([id]);
    }
  }

  /** A chunk came: the last stage takes it as its new prompt, the second one as something beside its tokens. */
  #receiveChunk(stage: number, request: ReportedRequest): void {
    request.chunks++;
    if (stage !== 2) return;
    request.computed = 0;
    request.total = PROMPT;
  }
}
