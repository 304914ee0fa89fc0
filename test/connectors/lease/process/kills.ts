// One run: requests through four processes, one of which is killed or stopped in each round.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unpagedText, wordy } from '../../../executors/reference/support.js';
import { Random } from '../../../support/engine-bench.js';
import { Child, HANG_MS, later } from './children.js';
import type { ChildReport, ChildResult } from './protocol.js';

const SEED = 3;
const LEASE_MS = 1500;

/** The figures of a run. */
export interface KillFigures {
  kills: number;
  stops: number;
  requests: number;
  /** Requests with the right text. */
  right: number;
  /** Of these, requests whose KV came from the other engine. */
  handedOver: number;
  /** Requests whose own process was killed. */
  killed: number;
  /** Requests that ended with an error while one of their processes was killed or stopped (`loadFailurePolicy: 'fail'`). */
  failed: number;
  aborted: number;
  /** Leases that ended by time, and reads that were refused or failed, in processes that lived to tell. */
  expired: number;
  refusedReads: number;
  failedReads: number;
  /** Times that a process was declared dead, or was back, by another one. */
  deaths: number;
  returns: number;
}

interface Asked {
  readonly from: Child;
  readonly to: Child;
  readonly isAborted: boolean;
  readonly disturbedBefore: number;
}

/**
 * Engines in processes of their own: two compute prompts and two continue. Meanwhile one after the
 * other is killed or stopped at a random moment. After each disturbance every request must have
 * ended, rightly or for its own reason, and nothing may be left of it anywhere.
 */
export class KillRun {
  readonly figures: KillFigures = {
    ...{ kills: 0, stops: 0, requests: 0, right: 0, handedOver: 0, killed: 0, failed: 0, aborted: 0 },
    ...{ expired: 0, refusedReads: 0, failedReads: 0, deaths: 0, returns: 0 },
  };
  readonly #random: Random;
  readonly #folder = mkdtempSync(join(tmpdir(), 'blockstep-kills-'));
  readonly #producers: Child[];
  readonly #consumers: Child[];
  readonly #seen = new Map<Child, { engineId: string; counts: Record<string, number> }>();
  #prompts = 0;

  /** @param policy of the second consumer; the first one computes again what it could not load */
  constructor(seed: number, policy: 'recompute' | 'fail') {
    this.#random = new Random(seed);
    const make = (name: string, shares: boolean, loadFailurePolicy: 'recompute' | 'fail') =>
      new Child({
        ...{ address: `ipc://${join(this.#folder, name)}`, pipelineDepth: shares ? 2 : 1, seed: SEED },
        ...{ leaseMs: LEASE_MS, peerTimeoutMs: 1000, loadFailurePolicy, shares },
      });
    this.#producers = [make('p0', true, 'recompute'), make('p1', false, 'recompute')];
    this.#consumers = [make('d0', true, 'recompute'), make('d1', false, policy)];
  }

  get #children(): Child[] {
    return [...this.#producers, ...this.#consumers];
  }

  async start(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.start()));
    for (const from of this.#producers) for (const to of this.#consumers) await this.#mustHandOver(from, to);
  }

  /** Makes one disturbance, with requests around it. */
  async round(): Promise<void> {
    const random = this.#random;
    const victim = this.#children[random.below(4)];
    const count = 3 + random.below(6);
    const requests: Promise<void>[] = [];
    for (let i = 0; i < count; i++) {
      requests.push(this.#request());
      if (random.chance(50)) await later(random.below(15));
    }
    await later(random.below(60));
    if (random.chance(50)) {
      this.figures.kills++;
      await victim.kill();
      if (random.chance(50)) await later(random.below(600));
      await inTime('the restart', victim.start());
    } else {
      this.figures.stops++;
      victim.stop();
      await later(random.chance(50) ? random.below(200) : random.below(2 * LEASE_MS));
      victim.resume();
    }
    if (random.chance(50)) requests.push(this.#request());
    await inTime('a request', Promise.all(requests));
    for (const child of this.#children) await this.#mustRest(child);
    // The disturbed one is taken back.
    const [from, to] = this.#producers.includes(victim)
      ? [victim, this.#consumers[random.below(2)]]
      : [this.#producers[random.below(2)], victim];
    await this.#mustHandOver(from, to);
  }

  async end(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.end()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Ends every process at once, after a failure. */
  async giveUp(): Promise<void> {
    for (const child of this.#children) if (child.isStopped) child.resume();
    await Promise.all(this.#children.map((child) => child.kill()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Serves one request through both engines. */
  async #request(): Promise<void> {
    const random = this.#random;
    const from = this.#producers[random.below(2)];
    const to = this.#consumers[random.below(2)];
    const asked: Asked = { from, to, isAborted: random.chance(15), disturbedBefore: disturbed(from, to) };
    this.figures.requests++;
    const prompt = wordy(40 + random.below(360), 1000 + this.#prompts++);
    const maxTokens = 4 + random.below(12);
    const first = await from.submit(prompt, 1, { doRemoteDecode: true });
    if (first.finishReason === 'killed') {
      this.figures.killed++;
      return;
    }
    this.#judge(asked, first, prompt, 1);
    const rest = to.submit(prompt, maxTokens, first.transferParams);
    if (asked.isAborted) to.abortLast();
    this.#judge(asked, await rest, prompt, maxTokens);
  }

  #judge(
    { from, to, isAborted, disturbedBefore }: Asked,
    result: ChildResult,
    prompt: Int32Array,
    count: number,
  ): void {
    const { tokens, finishReason, error } = result;
    const right = unpagedText(prompt, count, { seed: SEED });
    if (tokens.some((token, i) => token !== right[i]))
      throw new Error(`wrong text: ${tokens} and not ${right}`);
    const { figures } = this;
    const isConcerned = disturbed(from, to) > disturbedBefore;
    if (finishReason === 'length' && tokens.length === count) figures.right += count === 1 ? 0 : 1;
    else if (finishReason === 'abort' && isAborted) figures.aborted++;
    else if (finishReason === 'killed') figures.killed++;
    else if (finishReason === 'error' && isConcerned && to.setup.loadFailurePolicy === 'fail')
      figures.failed++;
    else throw new Error(`a request ended with ${finishReason} and ${tokens.length} tokens: ${error}`);
  }

  /** Waits until nothing is left at work in a process. */
  async #mustRest(child: Child): Promise<void> {
    const until = Date.now() + HANG_MS;
    let last: ChildReport | null = null;
    while (Date.now() < until) {
      last = await inTime('a report', child.report());
      if (last !== null && isAtRest(last)) {
        this.#count(child, last);
        return;
      }
      await later(50);
    }
    throw new Error(`${child.setup.address} has not come to rest: ${JSON.stringify(last)}`);
  }

  /** Hands KV over between two engines, after as many tries as it takes them to find each other. */
  async #mustHandOver(from: Child, to: Child): Promise<void> {
    const until = Date.now() + HANG_MS;
    while (Date.now() < until) {
      const before = (await to.report())?.worker.reads.ok ?? 0;
      const prompt = wordy(64, 1000 + this.#prompts++);
      const first = await inTime('a prefill', from.submit(prompt, 1, { doRemoteDecode: true }));
      const rest = await inTime('a decode', to.submit(prompt, 4, first.transferParams));
      const right = unpagedText(prompt, 4, { seed: SEED });
      if (rest.finishReason === 'length' && rest.tokens.join() !== right.join())
        throw new Error('wrong text');
      if (((await to.report())?.worker.reads.ok ?? 0) > before) {
        return;
      }
    }
    throw new Error(`${to.setup.address} takes nothing from ${from.setup.address} any more`);
  }

  /**
   * Adds what a process has counted since it was looked at last; a process that was restarted
   * counts from 0 again.
   */
  #count(child: Child, report: ChildReport): void {
    const { leases, reads, peerEvents } = report.worker;
    const now = {
      ...{
        expired: leases.expired,
        refusedReads: reads.refused,
        failedReads: reads.failed,
        handedOver: reads.ok,
      },
      ...{ deaths: peerEvents.deaths, returns: peerEvents.returns },
    };
    const before = this.#seen.get(child);
    const isSame = before !== undefined && before.engineId === report.engineId;
    for (const name of Object.keys(now) as (keyof typeof now)[]) {
      this.figures[name] += now[name] - (isSame ? before.counts[name] : 0);
    }
    this.#seen.set(child, { engineId: report.engineId, counts: now });
  }
}

function disturbed(...children: Child[]): number {
  return children.reduce((sum, { numDisturbed }) => sum + numDisturbed, 0);
}

/** Whether nothing is at work, nothing is kept, and nothing was wrong. */
function isAtRest({ hasWork, scheduler, worker, connector, faults, workerFailures }: ChildReport): boolean {
  if (faults + workerFailures + worker.ignored.failed > 0) throw new Error('a process has seen faults');
  const { leases, reads, ways } = worker;
  const { count: loads } = scheduler.outstanding.load;
  const { count: stores } = scheduler.outstanding.store;
  const kept = [
    leases.open,
    leases.readings,
    reads.open,
    reads.watched,
    ways.staged,
    connector.requests,
    connector.orders,
  ];
  const held = [loads, stores, scheduler.numDraining, scheduler.numQuarantined, scheduler.kvCacheUsage];
  return !hasWork && [...kept, ...held].every((number) => number === 0);
}

/** The value of a promise. @throws if it takes so long that it must be a hang */
async function inTime<T>(what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const hang = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} hangs`)), HANG_MS);
  });
  try {
    return await Promise.race([promise, hang]);
  } finally {
    clearTimeout(timer);
  }
}
