import type { RequestStream } from '../../../src/index.js';
import { Verdict } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { Random, settled } from '../../support/engine-bench.js';
import type { SteppedLane } from '../support/stepped-lane.js';
import { OffloadBench, SEED } from './support.js';

/** Sustained traffic in virtual time. */
export interface Traffic {
  seconds: number;
  seed: number;
  pipelineDepth: 1 | 2 | 3;
  numRanks: number;
  /** Percent of the requests that are aborted, and of the copies that fail. */
  aborts: number;
  failures: number;
}

/** The result of the traffic. */
export interface Outcome {
  requests: number;
  aborted: number;
  steps: number;
  preemptions: number;
  hits: number;
  hitTokens: number;
  stored: number;
  evicted: number;
  /** Faults of the KV memory, wrong texts, and work that should be over and is not. */
  wrong: string[];
}

const MAX_LEN = 160;
const NUM_BLOCKS = 101;
/** About as many blocks as two pools; the conversations below need many more. */
const HOST_BLOCKS = 400;
/** Milliseconds between two arrivals, and of a step, in the mean. */
const BETWEEN_MS = 90;
const STEP_MS = 25;
/** Texts that can be continued. */
const CONVERSATIONS = 60;
/** For one of this number of requests, the text is computed again without pages. */
const CHECKED = 8;

/** Runs one traffic: steps and copies take virtual time, requests arrive, continue earlier texts, and are aborted. */
export class Sustained {
  readonly #traffic: Traffic;
  readonly #random: Random;
  readonly #bench: OffloadBench;
  readonly #conversations: Int32Array[] = [];
  readonly #aborts: { at: number; stream: RequestStream }[] = [];
  readonly #wrong: string[] = [];
  readonly #lanesDue = new Map<SteppedLane, number>();
  #stepDue = Number.POSITIVE_INFINITY;
  #next = 0;
  #requests = 0;
  #aborted = 0;

  constructor(traffic: Traffic) {
    this.#traffic = traffic;
    this.#random = new Random(traffic.seed);
    const { pipelineDepth, numRanks } = traffic;
    this.#bench = new OffloadBench({
      engine: {
        numBlocks: NUM_BLOCKS,
        maxNumSeqs: 12,
        maxNumBatchedTokens: 64,
        maxModelLen: MAX_LEN,
        pipelineDepth,
        loadFailurePolicy: 'recompute',
      },
      numRanks,
      offload: { hostBlocks: HOST_BLOCKS, storeEvery: 8 },
    });
    this.#bench.time = 0;
  }

  async run(): Promise<Outcome> {
    const bench = this.#bench;
    const end = 1000 * this.#traffic.seconds;
    let arrival = 0;
    for (let event = 0; arrival < end || bench.engine.hasWork(); event++) {
      const next = Math.min(
        arrival < end ? arrival : Number.POSITIVE_INFINITY,
        this.#stepDue,
        this.#aborts[0]?.at ?? Number.POSITIVE_INFINITY,
        ...this.#lanesDue.values(),
      );
      // Nothing is due, and there is work: the engine makes a round per millisecond then.
      bench.time = Math.max(bench.time, next === Number.POSITIVE_INFINITY ? bench.time + 1 : next);
      if (arrival < end && arrival <= bench.time) {
        this.#submit();
        arrival += this.#random.below(2 * BETWEEN_MS);
      }
      while (this.#aborts.length > 0 && this.#aborts[0].at <= bench.time)
        this.#aborts.shift()?.stream.abort();
      await this.#work();
      if (event % 1024 === 0) bench.engine.verify();
      if (bench.time > end + 600_000)
        throw new Error(`it does not end: ${JSON.stringify(bench.engine.stats().scheduler)}`);
    }
    return this.#outcome();
  }

  /** Carries out the work that is due now. Then the engine makes rounds until it waits. */
  async #work(): Promise<void> {
    const bench = this.#bench;
    const { time, engine, executor } = bench;
    if (this.#stepDue <= time) {
      this.#stepDue = Number.POSITIVE_INFINITY;
      await bench.compute();
    }
    for (const [lane, due] of this.#lanesDue) {
      if (due > time) continue;
      this.#lanesDue.delete(lane);
      lane.next(this.#random.chance(this.#traffic.failures) ? Verdict.failed : Verdict.ok);
    }
    for (let round = 0; engine.step().state === 'progress'; round++) {
      if (round > 100) throw new Error('the engine never waits');
      await settled();
    }
    if (executor.waiting.length > 0 && this.#stepDue === Number.POSITIVE_INFINITY)
      this.#stepDue = time + 1 + this.#random.below(2 * STEP_MS);
    for (const lane of bench.lanes) {
      // Now and then a copy takes longer than many steps.
      const ms = this.#random.chance(5) ? 500 : 20;
      if (lane.numReady > 0 && !this.#lanesDue.has(lane))
        this.#lanesDue.set(lane, time + this.#random.below(ms));
    }
  }

  #submit(): void {
    const random = this.#random;
    const which = this.#next++;
    const maxTokens = 4 + random.below(24);
    const known = this.#conversations[random.below(Math.max(1, this.#conversations.length))];
    const goesOn = known !== undefined && random.chance(60);
    const own = wordy(6 + random.below(40), which);
    const prompt = goesOn ? Int32Array.of(...known, ...own.subarray(0, 5)) : own;
    if (prompt.length + maxTokens > MAX_LEN) {
      this.#conversations.splice(this.#conversations.indexOf(known), 1);
      return;
    }
    this.#requests++;
    const stream = this.#bench.submit({ prompt, maxTokens });
    if (random.chance(this.#traffic.aborts)) {
      this.#aborts.push({ at: this.#bench.time + random.below(400), stream });
      this.#aborts.sort((a, b) => a.at - b.at);
    }
    void stream.result().then(
      ({ tokens, finishReason }) => {
        if (finishReason === 'abort') this.#aborted++;
        const text = Int32Array.of(...prompt, ...tokens);
        if (this.#conversations.length < CONVERSATIONS) this.#conversations.push(text);
        else this.#conversations[random.below(CONVERSATIONS)] = text;
        if (which % CHECKED !== 0) return;
        const expected = unpagedText(prompt, tokens.length, { seed: SEED });
        if (expected.join() !== tokens.join()) this.#wrong.push(`the text of request ${which}`);
      },
      (error: unknown) => this.#wrong.push(`request ${which}: ${String(error)}`),
    );
  }

  async #outcome(): Promise<Outcome> {
    const bench = this.#bench;
    await settled();
    const { scheduler, steps } = bench.engine.stats();
    const { host } = bench.connector.stats();
    const faults = bench.executor.faults.map((fault) => JSON.stringify(fault));
    const wrong = [...faults, ...this.#wrong, ...bench.leftovers()];
    if (Object.keys(scheduler.anomalies).length > 0) wrong.push(JSON.stringify(scheduler.anomalies));
    const reset = bench.engine.resetPrefixCache({ resetConnector: true });
    if (!reset.ok) wrong.push(`reset: ${JSON.stringify(reset)}`);
    const { blocks, places } = bench.connector.stats().host;
    if (blocks !== 0 || places.free !== HOST_BLOCKS)
      wrong.push(`tier after the reset: ${JSON.stringify(places)}`);
    bench.dispose();
    return {
      requests: this.#requests,
      aborted: this.#aborted,
      steps,
      preemptions: scheduler.numPreemptions,
      hits: host.hits,
      hitTokens: host.hitTokens,
      stored: host.stores.blocks,
      evicted: host.evictions,
      wrong,
    };
  }
}
