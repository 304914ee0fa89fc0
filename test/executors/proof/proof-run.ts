// Drives an engine through the work of a proof.
import { Engine, type StepTables } from 'blockstep';
import { type Loss, PagedExecutor, type RowFault, type StepFault } from './paged-executor.js';
import { checkClient } from './proof-check.js';
import { Client } from './proof-client.js';
import { drawConfig, type RunConfig } from './proof-config.js';
import { WorkSource } from './proof-work.js';
import { Random } from './random.js';

export interface RunTotals {
  requests: number;
  tokens: number;
  failed: number;
  aborted: number;
  preemptions: number;
  hits: number;
  draftsSeen: number;
  draftsAccepted: number;
  providersBehind: number;
  mostInFlight: number;
  sessions: number;
}

export interface RunOutcome {
  readonly wrong: readonly string[];
  readonly totals: RunTotals;
  readonly config: RunConfig;
}

const MAX_ROUNDS = 20_000;

/** One configuration: an engine, its requests and all that happens to them, drawn from one seed. */
export class Run {
  readonly config: RunConfig;
  readonly #random: Random;
  readonly #source: WorkSource;
  readonly #executor: PagedExecutor;
  readonly #engine: Engine;
  readonly #clients: Client[] = [];
  readonly #faulted = new Set<number>();
  readonly #wrong: string[] = [];
  #unwrittenByFault = false;
  #time = 0;
  #mostInFlight = 0;
  #resets = 0;

  constructor(seed: number) {
    const random = new Random(seed);
    this.#random = random;
    this.config = drawConfig(random);
    this.#source = new WorkSource(random, this.config);
    const { options, rates, watchesBlocks, draftErrorRate } = this.config;
    this.#executor = new PagedExecutor({
      numBlocks: options.numBlocks,
      blockSize: options.blockSize,
      watchesBlocks,
      draftErrorRate,
      deferStep: () => {
        this.#actInside();
        return random.chance(rates.defer);
      },
      holdAnswer: () => random.chance(rates.hold),
      faults: {
        loss: (plan, tables) =>
          random.chance(rates.loss) ? this.#drawLoss(plan.numRequests, plan.numBlocks, tables) : null,
        submit: (plan) =>
          random.chance(rates.stepFault / 2) && this.#blame(plan.requests.slice(0, plan.numRequests), true),
        step: (plan) => {
          if (!random.chance(rates.stepFault / 2)) return null;
          const fault = random.pick<StepFault>(['unprepared', 'unwritten', 'sampled']);
          this.#blame(plan.requests.slice(0, plan.numRequests), fault !== 'sampled');
          return fault;
        },
        row: (plan, entry) => {
          if (!random.chance(rates.rowFault)) return null;
          const fault: RowFault = { writes: random.chance(0.5), answers: random.chance(0.5) };
          this.#blame(plan.requests.slice(entry, entry + 1), !fault.writes);
          return fault;
        },
      },
    });
    this.#engine = new Engine({
      ...options,
      executor: this.#executor,
      now: () => (this.#time += this.config.tick),
    });
  }

  async run(): Promise<RunOutcome> {
    try {
      await this.#drive();
      if (this.#executor.disposals > 0) await this.#checkClients();
      else await this.#finish();
    } catch (error) {
      this.#wrong.push(`threw ${error instanceof Error ? error.stack : String(error)}`);
    }
    this.#engine.dispose();
    if (this.#executor.disposals !== 1) this.#wrong.push(`disposed ${this.#executor.disposals} times`);
    return { wrong: this.#wrong, totals: this.#totals(), config: this.config };
  }

  /** Remembers who may fail, and whether KV is missing that somebody in flight may still read. */
  #blame(requests: readonly { readonly handle: number }[], unwritten: boolean): true {
    for (const { handle } of requests) this.#faulted.add(handle);
    if (unwritten) this.#unwrittenByFault = true;
    return true;
  }

  /** Blocks of one or two entries. Under `fail`, a request that holds a lost block may end. */
  #drawLoss(numRequests: number, numBlocks: Int32Array, { blockTable, maxBlocksPerRow }: StepTables): Loss {
    const random = this.#random;
    const blocks = new Set<number>();
    for (let n = random.int(1, 2); n > 0; n--) {
      const entry = random.int(0, numRequests - 1);
      const block = blockTable[entry * maxBlocksPerRow + random.int(0, (numBlocks[entry] ?? 1) - 1)] ?? 0;
      if (block !== 0) blocks.add(block);
    }
    const all = this.config.options.loadFailurePolicy === 'fail' ? this.#clients.map((c) => c.stream) : [];
    this.#blame(all, true);
    return { blocks: [...blocks], early: random.chance(0.5) };
  }

  #submit(): void {
    const item = this.#source.draw();
    const [first] = item.turns;
    const { resumable, priority, cacheSalt, adapter } = item;
    const stream = this.#engine.submit({
      prompt: first.prompt,
      ...first.stops,
      resumable,
      priority,
      params: { seed: first.seed },
      ...(cacheSalt === undefined ? {} : { cacheSalt }),
      ...(adapter === undefined ? {} : { adapter }),
    });
    this.#clients.push(new Client(item, stream));
  }

  #abortOne(): void {
    const client = this.#clients[this.#random.int(0, Math.max(0, this.#clients.length - 1))];
    client?.abort(this.#random.chance(0.5) ? new Error('aborted on purpose') : undefined);
  }

  /** Clients may call from inside `execute`. */
  #actInside(): void {
    if (!this.#random.chance(this.config.rates.inside)) return;
    if (this.#random.chance(0.5) && this.#clients.length < this.config.numRequests) this.#submit();
    else this.#abortOne();
  }

  /** The actions of clients between two steps. */
  #act(force: boolean): void {
    const random = this.#random;
    const { rates, numRequests } = this.config;
    for (let burst = random.int(0, 3); burst > 0 && this.#clients.length < numRequests; burst--) {
      if (force || random.chance(0.3)) this.#submit();
    }
    for (const client of this.#clients) {
      if (client.item.resumable && !client.stream.ended && (force || random.chance(0.1))) client.goOn();
    }
    if (random.chance(rates.abort)) this.#abortOne();
    // Each reset makes what runs begin again, so that without an end of them a long prompt in small chunks never ends.
    if (this.#resets < 10 && random.chance(rates.reset)) {
      this.#resets++;
      this.#engine.resetPrefixCache({ resetRunning: random.chance(0.7) });
    }
  }

  async #drive(): Promise<void> {
    let idle = 0;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      this.#act(idle > 2);
      const report = this.#engine.step();
      this.#mostInFlight = Math.max(this.#mostInFlight, report.stepsInFlight);
      idle = report.state === 'progress' || report.state === 'waiting' ? 0 : idle + 1;
      if (report.state === 'waiting') {
        if (this.#executor.numQueued > 0) this.#executor.computeNext();
        else this.#executor.answerHeld();
      }
      if (this.#random.chance(0.3)) this.#executor.answerHeld();
      while (this.#executor.numQueued > 0 && this.#random.chance(this.config.rates.compute))
        this.#executor.computeNext();
      // A promise of a step or an output settles in a microtask.
      for (let i = 0; i < 3; i++) await Promise.resolve();
      if (round === this.config.disposeAfter) return this.#engine.dispose();
      if (this.#clients.length === this.config.numRequests && this.#clients.every((c) => c.stream.ended))
        return;
    }
    const open = this.#clients
      .filter((c) => !c.stream.ended)
      .map((c) => this.#engine.explain(c.stream.handle));
    this.#wrong.push(`not done after ${MAX_ROUNDS} rounds: ${open.join('; ')}`);
  }

  async #finish(): Promise<void> {
    const engine = this.#engine;
    const executor = this.#executor;
    for (let round = 0; engine.hasWork() || executor.numQueued + executor.numHeld > 0; round++) {
      if (round > 100) {
        this.#wrong.push('there is work and nobody who asks for it');
        break;
      }
      engine.step();
      executor.computeNext();
      executor.answerHeld();
      await Promise.resolve();
    }
    engine.verify();
    this.#checkExecutor();
    await this.#checkClients();
    engine.dispose();
  }

  async #checkClients(): Promise<void> {
    for (let i = 0; i < 100 && this.#clients.some((c) => !c.done); i++) await Promise.resolve();
    const check = { config: this.config, faulted: this.#faulted, disposed: this.#executor.disposals > 0 };
    for (const [i, client] of this.#clients.entries()) {
      const wrong = client.done ? checkClient(client, check) : ['its reader still waits'];
      for (const what of wrong) this.#wrong.push(`request ${i} (handle ${client.stream.handle}): ${what}`);
    }
  }

  #checkExecutor(): void {
    const { numStates, numBatchRequests, unwrittenReads, finished } = this.#executor;
    const stats = this.#engine.stats();
    if (numStates !== 0) this.#wrong.push(`${numStates} states are left`);
    if (numBatchRequests !== 0) this.#wrong.push(`InputBatch keeps ${numBatchRequests} requests`);
    if (unwrittenReads !== 0 && !this.#unwrittenByFault)
      this.#wrong.push(`${unwrittenReads} reads of what nobody wrote`);
    if (stats.wrongAnswers !== 0) this.#wrong.push(`${stats.wrongAnswers} wrong answers`);
    if (stats.lateAnswers !== 0) this.#wrong.push(`${stats.lateAnswers} late answers`);
    if (finished.size !== this.#clients.length)
      this.#wrong.push(`${finished.size} of ${this.#clients.length} handles were reported`);
    for (const { stream } of this.#clients) {
      const times = finished.get(stream.handle) ?? 0;
      if (times !== 1) this.#wrong.push(`handle ${stream.handle} was reported ${times} times`);
    }
  }

  #totals(): RunTotals {
    const results = this.#clients.flatMap((c) => (c.result === null ? [] : [c.result]));
    const sum = (of: readonly number[]): number => of.reduce((a, b) => a + b, 0);
    const { draftsSeen, draftsAccepted, providersBehind } = this.#executor;
    return {
      requests: this.#clients.length,
      tokens: sum(this.#clients.map((c) => c.stream.numOutputTokens)),
      failed: this.#clients.filter((c) => c.failed && !c.aborted).length,
      aborted: this.#clients.filter((c) => c.aborted).length,
      preemptions: sum(results.map((r) => r.numPreemptions)),
      hits: sum(results.map((r) => Math.max(0, r.numCachedTokens))),
      draftsSeen,
      draftsAccepted,
      providersBehind,
      mostInFlight: this.#mostInFlight,
      sessions: this.#clients.filter((c) => c.item.resumable).length,
    };
  }
}
