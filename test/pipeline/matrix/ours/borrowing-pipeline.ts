import { type Plan, type Request, Scheduler } from '../../../../src/index.js';
import { STEP_TICKS } from '../as-reported/reported-pipeline.js';
import { Clients } from '../stages/clients.js';
import { Commands } from '../stages/commands.js';
import { Flow, shapeOf } from '../stages/flow.js';
import { OmniAdapter } from '../stages/omni-adapter.js';
import type { RequestState, Subject, SubjectOptions } from '../subject.js';

/** The token that ends a request, and every other one. */
const END = 2;
const TOKEN = 5;
const BLOCK_SIZE = 16;
const MAX_MODEL_LEN = 256;

interface Stage {
  readonly scheduler: Scheduler;
  readonly adapter: OmniAdapter<Request> | null;
  readonly commands: Commands;
  flight: { readonly plan: Plan; readonly until: number } | null;
}

/**
 * The same three stages and the same borrowing adapter over our own scheduler, plugged in through the option `borrower`.
 * A chunk lets its request be scheduled once, in the last stage too.
 */
export class BorrowingPipeline implements Subject {
  died: string | null = null;
  readonly #stages: readonly Stage[];
  readonly #flow: Flow;
  readonly #clients = new Clients();
  readonly #shapes: SubjectOptions;
  #now = 0;

  constructor(options: SubjectOptions) {
    const { maxNumSeqs, seed } = options;
    this.#shapes = options;
    this.#flow = new Flow(seed, (id, index, finished) => this.#clients.sound(id, index, finished));
    this.#stages = STEP_TICKS.map((_, stage) => {
      const adapter = stage === 0 ? null : this.#makeAdapter(stage, maxNumSeqs);
      const scheduler = new Scheduler({
        numBlocks: 1 + (2 * maxNumSeqs * MAX_MODEL_LEN) / BLOCK_SIZE,
        blockSize: BLOCK_SIZE,
        maxNumSeqs,
        maxModelLen: MAX_MODEL_LEN,
        hashSeed: 7,
        now: () => this.#now,
        borrower: adapter as never,
      });
      return { scheduler, adapter, commands: new Commands(seed * 8 + stage), flight: null };
    });
  }

  #makeAdapter(stage: number, maxNumSeqs: number): OmniAdapter<Request> {
    return new OmniAdapter<Request>({
      stage,
      maxNumSeqs,
      receive: (key) => this.#flow.transport.remove(key, this.#now),
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
      for (const [reason, count] of Object.entries(scheduler.stats().anomalies)) {
        // Clients race with the ends of their requests: no guard.
        if (reason.startsWith('abort-')) continue;
        sum[reason] = (sum[reason] ?? 0) + count;
      }
    return sum;
  }

  get lostPlaces(): number {
    return this.#stages.reduce((sum, { scheduler }) => {
      const { running } = scheduler.inspect();
      return sum + running.filter((id) => scheduler.get(id) === undefined).length;
    }, 0);
  }

  verify(): void {
    for (const { scheduler } of this.#stages) scheduler.verify();
  }

  dispose(): void {
    for (const { scheduler } of this.#stages) scheduler.dispose();
  }

  #advance(stage: number): void {
    const here = this.#stages[stage] as Stage;
    const { scheduler, adapter, flight } = here;
    if (flight !== null && flight.until <= this.#now) {
      scheduler.update(flight.plan, this.#compute(stage, flight.plan));
      here.flight = null;
    }
    this.#tell(stage, false);
    if (stage === 0) this.#tell(stage, true);
    if (here.flight === null) {
      const plan = scheduler.schedule();
      if (plan.totalTokens > 0) here.flight = { plan, until: this.#now + (STEP_TICKS[stage] as number) };
      else scheduler.update(plan, { tokens: new Int32Array(0), counts: new Int32Array(0) });
    }
    adapter?.poll();
  }

  #compute(stage: number, { requests, numRequests, maxOutputTokens }: Plan) {
    const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
    const tokens: number[] = [];
    for (let i = 0; i < numRequests; i++) {
      const { id, isFinished } = requests[i] as Request;
      if (counts[i] === 0) continue;
      tokens.push(!isFinished && this.#flow.step(stage, id, this.#now) ? END : TOKEN);
    }
    return { tokens: Int32Array.from(tokens), counts };
  }

  #tell(stage: number, inside: boolean): void {
    const { scheduler, commands } = this.#stages[stage] as Stage;
    for (const { kind, id } of commands.drain(this.#now, inside)) {
      if (kind === 'abort') scheduler.abort(id);
      else scheduler.add({ id, prompt: [3, 3, 3, 3], maxTokens: MAX_MODEL_LEN - 8, eosTokenId: END });
    }
  }
}
