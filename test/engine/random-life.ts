// A random life of an engine.
import type { OutputIterator } from '../../src/engine/streams/request-stream.js';
import {
  Engine,
  type EngineOptions,
  type Executor,
  type ExecutorPlan,
  type ExecutorResult,
  type Plan,
  type RequestOutput,
  type RequestResult,
  type RequestStream,
  type StepReport,
  type SubmitInput,
} from '../../src/index.js';
import { drawPool } from '../support/driver.js';
import { prompt, Random, settled } from '../support/engine-bench.js';
import { type Executed, FakeModel, mix } from '../support/fake-model.js';
import { schedulerOf } from '../support/scheduler-of.js';
import { Listener } from './outputs/heard.js';

const GARBAGE = 2_000_000_000;
const VOCABULARY = 60;
/**
 * Tokens that end a request that has them as its stops: a few of the tokens that the model samples.
 */
const STOPS = [1000, 1001, 1002, 1003];

/** One step that the executor has computed and not answered. */
interface Pending {
  settle: () => void;
}

/**
 * An executor over a model that writes and reads real KV: its tokens are right, but sometimes it
 * answers with a failure or with nonsense. It answers when it is told to, in any order, or at once.
 */
class MoodyExecutor implements Executor {
  readonly usesTables = false;
  readonly pending: Pending[] = [];
  readonly #life: EngineLife;

  constructor(life: EngineLife) {
    this.#life = life;
  }

  execute(plan: ExecutorPlan): ExecutorResult | PromiseLike<ExecutorResult> {
    const { random, failing, model } = this.#life;
    this.#life.insideExecute();
    const dice = random.below(200);
    const fails = dice < failing;
    const executed = model.execute(plan as Plan, (i) => fails && (dice % 2 === 0 || (i + dice) % 3 === 0));
    const { counts, errors } = executed;
    const tokens = this.#taint(plan, executed);
    const whole = fails && dice % 2 === 0;
    const answer: ExecutorResult = { tokens, counts, ...(fails ? { errors } : {}) };
    const { pipelineDepth, numSpeculativeTokens } = this.#life.engine.scheduler.config;
    if (!fails && pipelineDepth === 1 && numSpeculativeTokens > 0) {
      Object.assign(answer, { drafts: model.drafts(executed, numSpeculativeTokens) });
    }
    const wrong = !fails && random.below(200) < failing ? this.#spoil(plan, answer) : answer;
    if (random.chance(20)) {
      if (whole) throw new Error('the step failed');
      return wrong;
    }
    return new Promise((resolve, reject) => {
      this.pending.push({ settle: () => (whole ? reject(new Error('the step failed')) : resolve(wrong)) });
    });
  }

  /**
   * Tokens that are sampled from KV that nobody wrote are garbage. It may be, as long as no client
   * ever sees it.
   */
  #taint(plan: ExecutorPlan, { tokens, counts, tainted }: Executed): Int32Array {
    let at = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      if (tainted.includes(plan.requests[i].id)) tokens.fill(GARBAGE, at, at + counts[i]);
      at += counts[i];
    }
    return tokens;
  }

  /** Makes an answer wrong in one of its rows. */
  #spoil(plan: ExecutorPlan, { tokens, counts }: ExecutorResult): ExecutorResult {
    const { random } = this.#life;
    const row = random.below(plan.numRequests);
    const at = counts.subarray(0, row).reduce((sum, count) => sum + count, 0);
    const rest = [...tokens];
    const own = rest.splice(at, counts[row]);
    const spoilt = Int32Array.from(counts);
    const bad = random.chance(50) ? [] : [...own, -1, -1];
    spoilt[row] = bad.length;
    rest.splice(at, 0, ...bad);
    return { tokens: Int32Array.from(rest), counts: spoilt };
  }
}

/** A client of one request, which reads at any time. */
export interface Client {
  stream: RequestStream;
  reader: OutputIterator;
  input: SubmitInput;
  controller: AbortController | null;
  read: RequestOutput[];
  /** The last result of `next`: an output, the end, or a rejection. */
  ended: 'reading' | 'done' | unknown;
  waiting: boolean;
  result: Promise<PromiseSettledResult<RequestResult>>;
}

/** One seeded life of an engine on virtual time: clients, executor and operator do everything in random order. */
export class EngineLife {
  readonly engine: Engine;
  readonly executor: MoodyExecutor;
  readonly model: FakeModel;
  readonly random: Random;
  readonly clients: Client[] = [];
  /** Readers of all outputs: one reader never rests, and the other reads now and then. */
  readonly listeners: readonly Listener[];
  readonly failing: number;
  readonly #held: [number, string][] = [];
  /** The step that was made last, where the GPU decides. */
  #stepping: Promise<StepReport> | null = null;
  #time = 0;
  #next = 0;
  /** Whether the second listener waits for an item. */
  #listens = false;

  constructor(seed: number, options: Partial<EngineOptions> = {}) {
    const random = new Random(seed);
    this.random = random;
    this.failing = [0, 4, 20][random.below(3)];
    this.executor = new MoodyExecutor(this);
    this.engine = new Engine({
      pipelineDepth: (1 + (seed % 3)) as 1 | 2 | 3,
      ...drawPool(random),
      reserveFullIsl: random.chance(50),
      numSpeculativeTokens: random.chance(30) ? 1 + random.below(3) : 0,
      hashSeed: 7,
      now: () => this.#time,
      executor: this.executor,
      ...options,
    });
    this.listeners = [new Listener(this.engine.outputs()), new Listener(this.engine.outputs())];
    void this.listeners[0].readAll();
    this.model = new FakeModel(
      schedulerOf(this.engine),
      (_, position, root) => 1000 + (mix(root, position) % VOCABULARY),
    );
  }

  async run(events: number): Promise<void> {
    for (let i = 0; i < events; i++) {
      this.#event();
      if (this.random.chance(60)) await settled();
      // Otherwise what comes next finds the GPU deciding, and has it waited for.
      if (i % 2 === 0) await this.#stepping;
      this.engine.verify();
    }
    await this.drain();
  }

  /** The actions of clients while the executor is called. */
  insideExecute(): void {
    const dice = this.random.below(100);
    if (dice < 6) this.#submit();
    else if (dice < 14) this.#abort();
  }

  /** Everything that was held or is waited for is given; until nothing is left. */
  async drain(): Promise<void> {
    while (this.#held.length > 0) this.#complete();
    this.engine.resume();
    for (let i = 0; i < 3000; i++) {
      const { state } = await this.engine.stepAsync();
      if (state === 'idle') break;
      for (const { settle } of this.executor.pending.splice(0)) settle();
      await settled();
      this.#time++;
    }
    for (const client of this.clients) {
      while (client.ended === 'reading') {
        this.#read(client);
        await settled();
      }
    }
  }

  #event(): void {
    const { random, engine } = this;
    const dice = random.below(100);
    this.#time += random.below(3);
    if (dice < 18) this.#submit();
    else if (dice < 50) this.#step();
    else if (dice < 66) this.#deliver();
    else if (dice < 84) this.#readSome();
    else if (dice < 90) this.#abort();
    else if (dice < 92) this.#hold();
    else if (dice < 94) this.#complete();
    else if (dice < 95) engine.resetPrefixCache({ resetRunning: random.chance(50) });
    else if (dice < 96) engine.pause(random.chance(50) ? 'new' : 'all');
    else if (dice < 98) engine.resume();
    else this.#look();
  }

  #step(): void {
    const { engine } = this;
    if (engine.scheduler.config.placement.authority === 'host') engine.step();
    else this.#stepping = engine.stepAsync();
  }

  #submit(): void {
    const { random, engine } = this;
    const { numBlocks, blockSize } = engine.scheduler.config;
    const longest = Math.min(39, (numBlocks - 1) * blockSize);
    const input: SubmitInput = {
      prompt: prompt(1 + random.below(Math.min(longest, 24)), random.below(3)),
      maxTokens: 1 + random.below(12),
      priority: random.below(3),
      ...(random.chance(50) ? {} : { id: `r${random.chance(50) ? random.below(4) : this.#next++ + 10}` }),
      ...(random.chance(20) ? { cacheSalt: 'salt' } : {}),
      ...(random.chance(20) ? { stopTokenIds: STOPS } : {}),
    };
    // An id may be taken, also by a request whose abort is queued while a step is made.
    if (input.id !== undefined && engine.scheduler.get(input.id) !== undefined) return;
    const controller = random.chance(40) ? new AbortController() : null;
    if (controller !== null && random.chance(5)) controller.abort('before');
    const stream = engine.submit(input, controller === null ? {} : { signal: controller.signal });
    if (stream.handle >= 0) this.model.know(stream.handle, { id: stream.id, ...input });
    const result = Promise.allSettled([stream.result()]).then(([one]) => one);
    const reader = stream[Symbol.asyncIterator]();
    this.clients.push({
      stream,
      reader,
      input,
      controller,
      read: [],
      ended: 'reading',
      waiting: false,
      result,
    });
  }

  #deliver(): void {
    const { pending } = this.executor;
    if (pending.length === 0) return;
    const at = this.random.chance(70) ? 0 : this.random.below(pending.length);
    const [{ settle }] = pending.splice(at, 1);
    settle();
  }

  #readSome(): void {
    if (!this.#listens && this.random.chance(30)) {
      this.#listens = true;
      void this.listeners[1].readOne().then(() => {
        this.#listens = false;
      });
    }
    if (this.clients.length === 0) return;
    for (let i = 0; i < 3; i++) this.#read(this.clients[this.random.below(this.clients.length)]);
  }

  #read(client: Client): void {
    if (client.waiting || client.ended !== 'reading') return;
    client.waiting = true;
    client.reader.next().then(
      ({ done, value }) => {
        client.waiting = false;
        if (done) client.ended = 'done';
        else client.read.push(value);
      },
      (error: unknown) => {
        client.waiting = false;
        client.ended = error;
      },
    );
  }

  #abort(): void {
    const { random, engine, clients } = this;
    if (clients.length === 0) return;
    const { stream, reader, controller } = clients[Math.max(0, clients.length - 1 - random.below(8))];
    const reason = random.chance(50) ? undefined : 'reason';
    const ways = [
      () => stream.abort(reason),
      () => engine.abort(stream.id, reason),
      () => engine.abort(Math.max(0, stream.handle), reason),
      () => random.chance(10) && engine.abortAll(reason),
      () => reader.return(),
      () => controller?.abort('signal'),
    ];
    void ways[random.below(ways.length)]();
  }

  #hold(): void {
    const { random, engine, clients } = this;
    if (clients.length === 0) return;
    const { handle } = clients[random.below(clients.length)].stream;
    const owner = `job${random.below(3)}`;
    if (handle >= 0 && engine.hold(handle, 'store', owner)) this.#held.push([handle, owner]);
  }

  #complete(): void {
    if (this.#held.length === 0) return;
    const [[handle, owner]] = this.#held.splice(this.random.below(this.#held.length), 1);
    this.engine.complete(handle, 'store', owner);
  }

  /** Reading disturbs nothing. */
  #look(): void {
    const { engine, clients } = this;
    engine.stats();
    engine.health();
    for (const { stream } of clients.slice(-5)) engine.explain(stream.id);
  }
}
