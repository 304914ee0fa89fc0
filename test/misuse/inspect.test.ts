// `console.log` of schedulers, engines and transfers: one line, without throwing.
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { bytes, percent, showFacts } from '../../src/base/inspect.js';
import { DEFAULT_COST_MODEL } from '../../src/executors/cost-model/cost-model.js';
import { CostModelExecutor } from '../../src/executors/cost-model/cost-model-executor.js';
import {
  Anomalies,
  Engine,
  type ExecutorPlan,
  InputBatch,
  ReferenceExecutor,
  Scheduler,
  type StepTables,
} from '../../src/index.js';
import { BlockArena, CompletionQueue, HostLane, Leases, RankedJobs } from '../../src/transfer.js';
import { hostile } from './bad-values.js';
import { Bench, benchIn, prompt, resultOf, snapshot } from './bench.js';

const OPTIONS = { numBlocks: 41, blockSize: 4, maxNumSeqs: 16, maxModelLen: 64, hashSeed: 1 };

/** One line, and no longer than a screen is wide a few times, whatever it is. */
function lineOf(value: unknown): string {
  const line = inspect(value);
  expect(line).not.toContain('\n');
  expect(line.length).toBeLessThan(500);
  return line;
}

describe('showFacts', () => {
  it('is one line however many facts there are, without those that are undefined', () => {
    const facts = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`fact${i}`, i]));
    expect(showFacts('It', 2, {}, facts)).not.toContain('\n');
    expect(showFacts('It', 2, {}, { a: 1, b: undefined }, () => ({ c: 'x' }))).toBe("It { a: 1, c: 'x' }");
    expect(showFacts('It', -1, {}, { a: 1 })).toBe('[It]');
    expect(showFacts('It', 2, { colors: true }, { a: 1 })).toBe('It { a: \u001b[33m1\u001b[39m }');
  });

  it('says what cannot be read, and never throws', () => {
    expect(showFacts('It', 2, {}, { a: 1 }, hostile)).toBe("It { a: 1, unreadable: 'Error: mine' }");
  });

  it('numbers are for people', () => {
    expect([0, 0.004, 0.409, 1].map(percent)).toEqual(['0 %', '0 %', '41 %', '100 %']);
    expect([0, 1023, 1024, 2 ** 26, 1.5 * 2 ** 30, 2 ** 60].map(bytes)).toEqual([
      ...['0 bytes', '1023 bytes', '1 KiB', '64 MiB', '1.5 GiB', '1024 PiB'],
    ]);
  });
});

describe('a scheduler', () => {
  it('shows what it is at, and looking changes nothing', () => {
    const bench = benchIn('running');
    const before = snapshot(bench.scheduler);
    const pending = bench.scheduler.core.control[0];
    expect(lineOf(bench.scheduler)).toMatch(
      /^Scheduler \{ running: 2, waiting: 1, skipped: 0, step: 2, stepsInFlight: 0, kvUsage: '\d+ %', numBlocks: 33, policy: 'fcfs' \}$/,
    );
    expect(bench.scheduler.core.control[0]).toBe(pending);
    expect(snapshot(bench.scheduler)).toEqual(before);
  });

  it('its plan, request, outputs and core are a line each, with many entries too', () => {
    const scheduler = new Scheduler(OPTIONS);
    for (let i = 0; i < 9; i++)
      scheduler.add({ id: `r${i}`, prompt: prompt(3, 10 * i), maxTokens: i === 0 ? 1 : 4 });
    const plan = scheduler.schedule();
    expect(lineOf(plan)).toBe(
      "Plan { step: 0, requests: 9, tokens: 27, preempted: 0, finished: 0, entries: [ 'r0: positions 0 to 2', " +
        "'r1: positions 0 to 2', 'r2: positions 0 to 2', 'r3: positions 0 to 2', 'r4: positions 0 to 2', " +
        "'r5: positions 0 to 2', 'and 3 more' ] }",
    );
    const outputs = scheduler.update(plan, resultOf(plan));
    expect(lineOf(outputs)).toContain("rows: [ 'r0: 1 tokens, length', 'r1: 1 tokens',");
    expect(lineOf(scheduler.get('r1'))).toMatch(
      /^Request \{ id: 'r1', handle: \d+, status: 'RUNNING', promptTokens: 3, outputTokens: '1 of 4', computed: 3, cached: 0 \}$/,
    );
    expect(lineOf(scheduler.schedule())).toContain('r1: position 3');
    expect(lineOf(scheduler.core)).toBe("Core { backend: 'host', numBlocks: 41, blockSize: 4 }");
    scheduler.dispose();
    expect(lineOf(scheduler)).toContain("state: 'disposed'");
    for (const each of [plan, outputs, scheduler.core]) lineOf(each);
  });

  it('says that it is broken', () => {
    const bench = new Bench();
    bench.poison();
    expect(lineOf(bench.scheduler)).toContain("state: 'broken'");
  });
});

describe('an engine', () => {
  it('shows what it is at in every state, and asks no clock', () => {
    let asked = 0;
    const executor = new ReferenceExecutor(OPTIONS);
    const engine = new Engine({ ...OPTIONS, executor, now: () => asked++ });
    engine
      .submit({ prompt: [1, 2, 3], maxTokens: 4 })
      .result()
      .catch(() => {});
    const before = asked;
    expect(lineOf(engine)).toBe(
      "Engine { state: 'open', drivenBy: 'step', running: 0, waiting: 1, skipped: 0, unread: 0, steps: 0, " +
        "stepsInFlight: 0, kvUsage: '0 %' }",
    );
    expect(asked).toBe(before);
    engine.step();
    expect(lineOf(engine)).toContain('running: 1');
    expect(lineOf(executor)).toMatch(
      /^ReferenceExecutor \{ device: 'cpu', numBlocks: 41, .*faults: 0, requests: 1,/,
    );
    engine.dispose();
    expect(lineOf(engine)).toContain("state: 'disposed'");
    expect(lineOf(executor)).toContain('disposed: true');
  });

  it('says why it is broken', () => {
    let time = 0;
    const executor = { execute: () => new Promise<never>(() => {}) };
    const engine = new Engine({ ...OPTIONS, executor, executorTimeoutMs: 5, now: () => time });
    engine
      .submit({ prompt: [1], maxTokens: 1 })
      .result()
      .catch(() => {});
    engine.step();
    time = 9;
    expect(() => engine.step()).toThrow();
    expect(lineOf(engine)).toMatch(/state: 'broken'.*failure: 'the executor has not answered step 0/);
  });

  it('the plan and the tables that its executor sees are a line each, also when all is over', () => {
    const seen: [ExecutorPlan, StepTables | null][] = [];
    const executor = new ReferenceExecutor(OPTIONS);
    const engine = new Engine({
      ...OPTIONS,
      executor: {
        execute: (plan, tables) => {
          seen.push([plan, tables]);
          return executor.execute(plan, tables);
        },
      },
    });
    engine
      .submit({ id: 'a', prompt: [1, 2, 3], maxTokens: 4 })
      .result()
      .catch(() => {});
    engine.step();
    const [plan, tables] = seen[0];
    expect(lineOf(plan)).toContain(
      "ExecutorPlan { step: 0, requests: 1, tokens: 3, preempted: 0, finished: 0, entries: [ 'a: ",
    );
    expect(lineOf(tables)).toBe(
      'StepTables { numEntries: 1, maxTokens: 1024, maxEntries: 16, maxBlocksPerRow: 16 }',
    );
    engine.dispose();
    (plan as { numRequests: unknown }).numRequests = 7;
    for (const each of [plan, tables]) lineOf(each);
  });
});

describe('what moves KV', () => {
  it('is a line each, before and after it was disposed', () => {
    const queue = new CompletionQueue({ capacity: 8 });
    const [from, to] = [0, 1].map(() => BlockArena.allocate({ numBlocks: 4, bytesPerBlock: 2 ** 16 }));
    const lane = new HostLane(queue, from, to);
    queue.begin();
    expect(lineOf(queue)).toBe('CompletionQueue { capacity: 8, inFlight: 1, abandoned: 0, late: 0 }');
    expect(lineOf(from)).toBe(
      "BlockArena { numBlocks: 4, bytesPerBlock: 65536, size: '256 KiB', place: 'host' }",
    );
    expect(lineOf(lane)).toBe(
      "HostLane { from: 'host', to: 'host', pending: 0, waiting: 0, bytes: 0, copies: 0 }",
    );
    for (const each of [lane, queue, from, to]) each.dispose();
    for (const each of [lane, queue, from]) expect(lineOf(each)).toMatch(/disposed: true \}$/);
  });

  it('books are a line each', () => {
    const anomalies = new Anomalies(false);
    anomalies.report('stale-handle', 'x');
    const ranked = new RankedJobs(anomalies);
    ranked.begin([0, 1], undefined);
    const leases = new Leases(anomalies);
    leases.grant(1, 10, 5);
    expect([anomalies, ranked, leases].map(lineOf)).toEqual([
      "Anomalies { 'stale-handle': 1 }",
      'RankedJobs { jobs: 1, begun: 1 }',
      'Leases { leases: 1, nextDeadline: 15 }',
    ]);
  });
});

it('other executors and their help are a line each', () => {
  const cost = { model: DEFAULT_COST_MODEL, now: () => 0, seed: 3, acceptanceRate: 1 };
  const executor = new CostModelExecutor({ ...cost, maxEntries: 4, maxDrafts: 1, stepsInFlight: 2 });
  expect(lineOf(executor)).toBe(
    'CostModelExecutor { maxEntries: 4, maxDrafts: 1, stepsInFlight: 2, seed: 3, deviceFreeMs: 0 }',
  );
  expect(lineOf(new InputBatch({ blockSize: 4 }))).toBe('InputBatch { blockSize: 4, requests: 0 }');
});
