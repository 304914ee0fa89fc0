import type { BlockstepError } from '../../../src/base/errors.js';
import type { ConnectorOutput, TransferReport } from '../../../src/connector.js';
import type { Plan, SchedulerOptions } from '../../../src/index.js';
import type { LogSink } from '../../../src/replay.js';
import { carryRules, type WithRules } from '../../../src/scheduler/options/single-rules.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import { steppable } from '../authority/decided-scheduler.js';
import { NO_RESULT, prompt, Random } from '../driver.js';
import { mix } from '../fake-model.js';
import { type Script, ScriptedConnector } from './scripted-connector.js';

const THROWING = ['new', 'match', 'alloc', 'metadata', 'output', 'finished', 'cancel', 'reset'];
const NEVER_ENDS = { load: 0, reclaim: 0, grammar: 0, streamingInput: 0 };

/** The behaviour of each request's connector, drawn by its name. */
function drawScript(seed: number, id: string, children: number, isCalm: boolean): Script {
  const random = new Random(mix(seed, mix(id.length, Number(id.slice(1)))));
  const chance = (percent: number): boolean => random.chance(percent);
  return {
    ext: chance(70) ? random.below(24) : 0,
    async: chance(60),
    child: random.below(children),
    oneshot: chance(30),
    defer: chance(20) ? random.below(3) : 0,
    delayFree: chance(50),
    delayAbort: chance(30),
    delivers: chance(50),
    ...(chance(50) ? { children: Array.from({ length: 1 + random.below(children) }, (_, i) => i) } : {}),
    wakes: isCalm && chance(30),
  };
}

function drawOptions(random: Random, depth: 1 | 2 | 3): SchedulerOptions {
  return {
    numBlocks: 14 + random.below(16),
    blockSize: [2, 4][random.below(2)],
    maxNumSeqs: 2 + random.below(5),
    maxNumBatchedTokens: 8 + random.below(30),
    maxModelLen: 40,
    pipelineDepth: depth,
    policy: random.chance(50) ? 'priority' : 'fcfs',
    enablePrefixCaching: !random.chance(10),
    reserveFullIsl: random.chance(50),
    numSpeculativeTokens: random.chance(30) ? 1 + random.below(2) : 0,
    loadFailurePolicy: random.chance(50) ? 'recompute' : 'fail',
    reclaim: random.chance(50) ? 'on-confirmation' : 'on-report',
    deadlines: random.chance(60) ? { load: 40, reclaim: 30 } : NEVER_ENDS,
    ...(random.chance(25) ? { deviations: false as const } : {}),
    hashSeed: 7,
  };
}

/**
 * One seeded life of a scheduler with a connector. Loads come late, fail or never come, blocks are
 * sent, and methods throw. There are pins, aborts from inside, and peers whose reports nobody asked
 * for.
 */
export class ConnectedLife {
  readonly scheduler: Scheduler;
  readonly connector: ScriptedConnector;
  readonly random: Random;
  /** How often each thing happened that a life is there for. */
  readonly happened: Record<string, number> = {};
  readonly #handles: number[] = [];
  readonly #inFlight: Plan[] = [];
  readonly #isCalm: boolean;
  readonly #pinned: number[] = [];
  readonly #children: number;
  #now = 0;
  #next = 0;
  #last: Plan | null = null;

  /** @param isCalm mostly steps in which nothing else happens, and long answers */
  constructor(
    seed: number,
    log: LogSink | null,
    readonly onPlan: (plan: Plan, scheduler: Scheduler) => void,
    given: Partial<WithRules<SchedulerOptions>> = {},
    isCalm = false,
  ) {
    this.random = new Random(seed);
    this.#isCalm = isCalm;
    const { random } = this;
    const reporters = [[[0]], [[0, 1], [3]]][random.below(2)];
    this.#children = reporters.length;
    const scripts = new Proxy({} as Record<string, Script>, {
      get: (_, id) => drawScript(seed, String(id), reporters.length, isCalm),
    });
    const protection = ([['own'], ['own', 'pin'], ['own', 'pin', 'fence']] as const)[random.below(3)];
    this.connector = new ScriptedConnector(scripts, { protection, reporters });
    const options = drawOptions(random, (1 + (seed % 3)) as 1 | 2 | 3);
    this.scheduler = steppable({
      ...options,
      ...carryRules(given),
      connector: this.connector,
      now: () => this.#now,
      ...(log !== null && { log }),
    });
    this.connector.during = () => this.#inside();
  }

  run(events: number): void {
    for (let i = 0; i < events; i++) {
      this.event();
      this.scheduler.verify();
    }
  }

  /** One event, drawn by the seed among the possible events. */
  event(): void {
    const { random, scheduler } = this;
    this.#now += random.below(3);
    if (this.#isCalm && random.chance(80)) {
      if (random.chance(4)) this.connector.throwing.add('metadata');
      else this.connector.throwing.delete('metadata');
      this.#schedule();
      if (random.chance(90)) this.#update();
      return;
    }
    const dice = random.below(100);
    if (random.chance(20)) this.connector.throwing.clear();
    if (dice < 20) this.#add();
    else if (dice < 50) this.#schedule();
    else if (dice < 74) this.#update();
    else if (dice < 84) scheduler.updateTransfers(this.#output());
    else if (dice < 89) this.#abort();
    else if (dice < 91) this.#fence();
    else if (dice < 93) this.#reset();
    else if (dice < 96) this.connector.throwing.add(THROWING[random.below(THROWING.length)]);
    else if (this.#isCalm && dice < 97) this.#wake();
    else if (dice < 98) this.#pin();
    else if (dice < 99) scheduler.pause(random.chance(50) ? 'new' : 'all');
    else scheduler.resume();
    if (dice < 50) scheduler.resume();
  }

  #add(): void {
    const { random, scheduler } = this;
    const id = `r${this.#next++}`;
    const maxTokens = 1 + random.below(this.#isCalm ? 30 : 8);
    const input = { id, prompt: prompt(1 + random.below(24), random.below(3)), maxTokens };
    try {
      this.#handles.push(scheduler.add({ ...input, priority: random.below(3) }));
    } catch (error) {
      if ((error as BlockstepError).code !== 'ERR_BLOCKSTEP_UNFIT') throw error;
    }
  }

  #schedule(): void {
    const { scheduler } = this;
    if (this.#inFlight.length === scheduler.config.pipelineDepth) {
      this.#update();
      return;
    }
    const plan = scheduler.schedule();
    this.#last = plan;
    this.onPlan(plan, scheduler);
    if (plan.totalTokens > 0) this.#inFlight.push(plan);
    if (plan.hasSyncLoads) this.#count('synchronous load');
  }

  #update(): void {
    const { random, scheduler } = this;
    const output = random.chance(this.#isCalm ? 10 : 50) ? this.#output() : null;
    const fails = random.chance(this.#isCalm ? 1 : 8);
    const [plan] = this.#inFlight;
    if (plan === undefined) {
      if (this.#last?.awaitsUpdate !== true) {
        if (output !== null) scheduler.updateTransfers(output);
        return;
      }
      if (fails) scheduler.failStep(this.#last, output);
      else scheduler.update(this.#last, NO_RESULT, output);
      return;
    }
    this.#inFlight.shift();
    if (fails) {
      scheduler.failStep(plan, output);
      return;
    }
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests), (most) =>
      most > 0 ? 1 + random.below(most) : 0,
    );
    const total = counts.reduce((sum, count) => sum + count, 0);
    const tokens = Int32Array.from({ length: total }, () => 1000 + random.below(50));
    const errors = Uint8Array.from(counts, () => (random.chance(10) ? 1 : 0));
    for (const [i, error] of errors.entries()) if (error === 1 && counts[i] > 0) errors[i] = 0;
    const isPlain = this.#isCalm && !errors.includes(1);
    scheduler.update(plan, isPlain ? { tokens, counts } : { tokens, counts, errors }, output);
    const { numSpeculativeTokens, pipelineDepth } = scheduler.config;
    if (numSpeculativeTokens > 0 && pipelineDepth === 1 && plan === this.#last && random.chance(70)) {
      const drafts = new Int32Array(plan.numRequests).fill(1);
      scheduler.updateDraftTokens(plan, {
        tokens: new Int32Array(plan.numRequests).fill(1001),
        counts: drafts,
      });
    }
  }

  /**
   * Most outstanding transfers are reported at some time, some of them twice, from the wrong side
   * or as failed.
   */
  #output(): ConnectorOutput {
    const { random, scheduler } = this;
    const lists = {
      finishedReceiving: [] as TransferReport[],
      finishedSending: [] as TransferReport[],
      failedReceiving: [] as TransferReport[],
      renewed: [] as TransferReport[],
      invalidBlocks: [] as { block: number }[],
    };
    for (const handle of this.#handles.slice(-12)) {
      const request = scheduler.getByHandle(handle);
      for (const { kind, owner } of request?.outstanding?.uses() ?? []) {
        const [child, rank] = owner.match(/\d+/g)?.map(Number) ?? [0, 0];
        if (random.chance(50)) continue;
        this.#count(kind);
        if (random.chance(10)) {
          lists.renewed.push({ handle, child, rank });
          continue;
        }
        const list = kind === 'load' ? lists.finishedReceiving : lists.finishedSending;
        list.push({ handle, child, rank });
        if (kind === 'store' || request === undefined || random.chance(70)) continue;
        this.#count('failed load');
        if (random.chance(50)) lists.failedReceiving.push({ handle, child, rank });
        else lists.invalidBlocks.push({ block: scheduler.core.blocks(request.slot).at(-1) ?? 1 });
      }
    }
    for (const plan of this.#inFlight) {
      const load = plan.syncLoads.at(0);
      if (load === undefined || random.chance(60)) continue;
      this.#count('failed synchronous load');
      lists.invalidBlocks.push({ block: load.blocks[random.below(load.blocks.length)] });
    }
    if (random.chance(10)) this.#foreign(lists.finishedSending);
    if (random.chance(10)) this.#foreign(lists.finishedReceiving);
    if (random.chance(5)) lists.invalidBlocks.push({ block: random.below(40) - 2 });
    return lists;
  }

  #foreign(list: TransferReport[]): void {
    const { random } = this;
    const handle = this.#handles[random.below(this.#handles.length)] ?? 5;
    list.push({ handle, child: random.below(2), rank: random.below(2), step: random.below(30) });
  }

  #abort(): void {
    const { random } = this;
    if (random.chance(3)) this.scheduler.abortAll();
    else if (this.#handles.length > 0) this.scheduler.abort(this.#recent());
  }

  #recent(): number {
    return this.#handles[Math.max(0, this.#handles.length - 1 - this.random.below(8))];
  }

  #fence(): void {
    const { random, scheduler } = this;
    const fenced = random.chance(50)
      ? scheduler.fenceTransfers()
      : scheduler.fenceTransfers(random.below(this.#children));
    if (fenced > 0) this.#count('fence');
  }

  #reset(): void {
    const { random } = this;
    this.connector.tier = [true, false, undefined][random.below(3)];
    const options = { resetRunning: random.chance(50), resetConnector: random.chance(70) };
    this.scheduler.resetPrefixCache(options);
  }

  /** The actions of the connector while it is asked. */
  #inside(): void {
    if (this.random.chance(10)) this.#pin();
    if (this.#isCalm && this.random.chance(10)) this.#wake();
    if (!this.random.chance(2) || this.#handles.length === 0) return;
    this.scheduler.abort(this.#recent());
    this.#count('late abort');
  }

  #pin(): void {
    const { random, connector } = this;
    if (random.chance(50) || this.#pinned.length > 3) {
      const block = this.#pinned.shift();
      if (block !== undefined) connector.pins?.unpin(Int32Array.of(block));
      return;
    }
    const block = 1 + random.below(this.scheduler.config.numBlocks - 1);
    connector.pins?.pin(Int32Array.of(block));
    this.#pinned.push(block);
    this.#count('pin');
  }

  #wake(): void {
    if (this.#handles.length > 0 && this.connector.view.wake(this.#recent())) this.#count('wake');
  }

  #count(what: string): void {
    this.happened[what] = (this.happened[what] ?? 0) + 1;
  }
}
