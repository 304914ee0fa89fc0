// One disturbance with requests around it, and the checks after it.
import { BlockstepError } from '../../../src/index.js';
import { Pipeline, type PipelineResult } from '../../../src/pipeline/index.js';
import { RedisTransport } from '../../../src/pipeline/redis/index.js';
import { Random } from '../../support/engine-bench.js';
import type { RedisServer } from '../../support/redis/redis-server.js';
import { Child, HANG_MS, inTime, later } from './children.js';
import type { ChildReport, ChildSetup } from './protocol.js';
import { STAGES, stageOf } from './stages.js';

/** Short times, so that a dead party is noticed soon. */
const TIMES = { deadMs: 1500, ttlMs: 2000, commandTimeoutMs: 400 };
const MOST_WORDS = 12;
/** Of the first stage. */
const MAX_TOKENS = 24;

/** The disturbances, each with its victim. */
const DISTURBANCES = [
  ...['kill thinker', 'kill talker', 'kill wave', 'kill server', 'kill client'],
  ...['stop thinker', 'stop talker', 'stop wave', 'stop server', 'empty server'],
] as const;
export type Disturbance = (typeof DISTURBANCES)[number];

/** The figures of a run. */
export interface KillFigures {
  kills: number;
  stops: number;
  requests: number;
  /** Requests with the right texts in all stages. */
  right: number;
  /** Requests that ended with an error around a disturbance. */
  failed: number;
  aborted: number;
}

/**
 * A pipeline of three stages in three processes over a real server, with one client in this process
 * and one in another. Meanwhile one of the other processes is killed, stopped or emptied at a
 * random moment. After each disturbance every request must have ended once, rightly or with an
 * error, and the next requests must be served. Nothing may be left of any of them, in the stages
 * and on the server.
 */
export class KillRun {
  readonly figures: KillFigures = { kills: 0, stops: 0, requests: 0, right: 0, failed: 0, aborted: 0 };
  readonly #random: Random;
  readonly #server: RedisServer;
  readonly #children = new Map<string, Child>();
  readonly #texts = new Map<number, string>();
  #pipeline!: Pipeline;

  constructor(seed: number, server: RedisServer) {
    this.#random = new Random(seed);
    this.#server = server;
    for (const role of [...STAGES, 'client'] as const) {
      const setup: ChildSetup = { role, url: server.url, ...TIMES, latencyMs: 1 };
      this.#children.set(role, new Child(setup));
    }
  }

  async start(): Promise<void> {
    const own = new Pipeline({ stages: STAGES.map((name) => stageOf(name, 0)) });
    own.run();
    for (let words = 1; words <= MOST_WORDS; words++) {
      const stream = own.submit({ prompt: promptOf(words), maxTokens: MAX_TOKENS }, { outputs: STAGES });
      this.#texts.set(words, textsOf(await inTime('the pipeline of one process', stream.result())));
    }
    await own.shutdown();
    const { ttlMs, commandTimeoutMs } = TIMES;
    const transport = await RedisTransport.open({ url: this.#server.url, ttlMs, commandTimeoutMs });
    const stages = STAGES.map((name) => ({ name, remote: true as const }));
    this.#pipeline = new Pipeline({ stages, transport, pingMs: 100, deadMs: TIMES.deadMs });
    this.#pipeline.run();
    await inTime('the start', Promise.all([...this.#children.values()].map((child) => child.start())));
    await this.#mustServe();
  }

  /** One disturbance, drawn or given, with requests around it. */
  async round(
    disturbance: Disturbance = DISTURBANCES[this.#random.below(DISTURBANCES.length)],
  ): Promise<void> {
    const random = this.#random;
    const requests: Promise<void>[] = [];
    for (let count = 3 + random.below(6); count > 0; count--) {
      requests.push(this.#request(random.chance(20)));
      if (random.chance(50)) await later(random.below(15));
    }
    await later(random.below(60));
    await this.#disturb(disturbance);
    if (random.chance(50)) requests.push(this.#request(random.chance(20)));
    await inTime(`a request after ${disturbance}`, Promise.all(requests));
    await this.#mustServe();
    await this.#mustRest(disturbance);
  }

  /** Ends every process, and this client. @returns the last figures of the transport here */
  async end(): Promise<void> {
    for (const child of this.#children.values()) {
      child.signal('SIGCONT');
      await child.kill();
    }
    await this.#pipeline?.shutdown({ drainMs: 0 });
  }

  async #disturb(disturbance: Disturbance): Promise<void> {
    const random = this.#random;
    const [verb, whom] = disturbance.split(' ') as [string, string];
    const child = this.#children.get(whom);
    if (verb === 'kill') {
      this.figures.kills++;
      await (child?.kill() ?? this.#server.stop());
      if (random.chance(50)) await later(random.below(600));
      await inTime('the restart', child?.start() ?? this.#server.start());
    } else if (verb === 'stop') {
      this.figures.stops++;
      const target = child ?? this.#server;
      target.signal('SIGSTOP');
      await later(random.chance(50) ? random.below(200) : random.below(2 * TIMES.ttlMs));
      target.signal('SIGCONT');
    } else this.#server.command('flushall');
  }

  async #request(isAborted: boolean): Promise<void> {
    this.figures.requests++;
    const words = 1 + this.#random.below(MOST_WORDS);
    const before = endsOf(this.#pipeline);
    const stream = this.#pipeline.submit(
      { prompt: promptOf(words), maxTokens: MAX_TOKENS },
      { outputs: STAGES },
    );
    if (isAborted) setTimeout(() => stream.abort(), this.#random.below(30));
    // One reader of the outputs, one of the result: both must see the same, single end.
    const reading = (async () => {
      for await (const _ of stream);
    })();
    const [read, result] = await Promise.allSettled([reading, stream.result()]);
    if (read.status !== result.status) throw new Error(`two ends: ${read.status} and ${result.status}`);
    if (endsOf(this.#pipeline) <= before) throw new Error('an end was not counted');
    if (result.status === 'rejected') {
      const error = result.reason as unknown;
      if (!(error instanceof BlockstepError)) throw error;
      this.figures.failed++;
    } else if (result.value.finishReason === 'abort') {
      if (!isAborted) throw new Error('a request was aborted that nobody has aborted');
      this.figures.aborted++;
    } else {
      const texts = textsOf(result.value);
      if (texts !== this.#texts.get(words))
        throw new Error(`wrong texts: ${texts} and not ${this.#texts.get(words)}`);
      this.figures.right++;
    }
  }

  /** A request is served rightly, after as many tries as it takes. */
  async #mustServe(): Promise<void> {
    const { right } = this.figures;
    const end = Date.now() + HANG_MS;
    while (this.figures.right === right) {
      if (Date.now() > end) throw new Error('requests are not served any more');
      await inTime('a request', this.#request(false));
    }
  }

  /** Nothing is left of this client's requests, and of those of clients that are no more. */
  async #mustRest(after: string): Promise<void> {
    const { stats } = this.#pipeline;
    const { requests, completed, failed, aborted } = stats.call(this.#pipeline);
    if (requests !== 0 || completed + failed + aborted !== this.figures.requests)
      throw new Error(
        `${this.figures.requests} requests: ${completed} + ${failed} + ${aborted}, ${requests} open`,
      );
    const client = this.#children.get('client') as Child;
    await client.kill();
    const end = Date.now() + HANG_MS;
    for (;;) {
      const left = await this.#leftovers();
      if (left.length === 0) break;
      if (Date.now() > end) throw new Error(`left after ${after}: ${left.join(', ')}`);
      await later(50);
    }
    await client.start();
  }

  async #leftovers(): Promise<string[]> {
    const left: string[] = [];
    for (const name of STAGES) {
      const child = this.#children.get(name) as Child;
      const report = await inTime('a report', child.report());
      if (report === null) throw new Error(`the process of ${name} has ended`);
      left.push(...leftIn(name, report));
    }
    // The streams of the stages and of this client, with nothing in them.
    const keys = this.#server.command('keys', '*').split('\n').filter(Boolean);
    if (keys.length !== STAGES.length + 1) left.push(`keys ${keys.join(' ')}`);
    for (const key of keys) {
      const length = Number(this.#server.command('xlen', key));
      // The entries that are on their way just now: pings and their answers.
      if (length > 2 * STAGES.length) left.push(`${length} entries in ${key}`);
    }
    return left;
  }
}

function leftIn(name: string, { requests, inEngine, faults }: ChildReport): string[] {
  if (faults > 0) throw new Error(`${name} has seen wrong KV`);
  return requests + inEngine === 0 ? [] : [`${requests} requests in ${name}, ${inEngine} in its engine`];
}

function endsOf(pipeline: Pipeline): number {
  const { completed, failed, aborted } = pipeline.stats();
  return completed + failed + aborted;
}

function promptOf(words: number): Int32Array {
  return Int32Array.from({ length: 3 * words }, (_, i) => 10 + ((7 * i * words) % 23));
}

/** The texts of all stages. */
function textsOf({ stages }: PipelineResult): string {
  return STAGES.map((name) => `${name}: ${stages[name]?.tokens?.join(' ')}`).join('; ');
}
