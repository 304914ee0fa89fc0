// Unknown names in every options object are refused; names known from vLLM get a hint.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, describe, expect, it } from 'vitest';
import { Core, type CoreConfig } from '../../src/core/core.js';
import { DEFAULT_COST_MODEL } from '../../src/executors/cost-model/cost-model.js';
import { CostModelExecutor } from '../../src/executors/cost-model/cost-model-executor.js';
import {
  Engine,
  type EngineOptions,
  type Executor,
  ReferenceExecutor,
  type RequestInput,
  Scheduler,
} from '../../src/index.js';
import { BlockArena, CompletionQueue, HostLane } from '../../src/transfer.js';
import { generateWorkload } from '../../src/workload/generate.js';
import { readTrace } from '../../src/workload/trace.js';
import { MINE, throwingProxy } from './bad-values.js';
import { Bench, benchIn, codeOfError, errorOf, expectReadable, prompt, resultOf, snapshot } from './bench.js';

const OPTIONS = { numBlocks: 33, blockSize: 4, maxNumSeqs: 4, maxModelLen: 64, hashSeed: 5 };
const REQUEST = { prompt: prompt(6), maxTokens: 4 };
const COST = { model: DEFAULT_COST_MODEL, now: () => 0, seed: 0, acceptanceRate: 1, stepsInFlight: 1 };
const SHAPE = { numBlocks: 4, bytesPerBlock: 64 };

const executor: Executor = { execute: () => ({ tokens: new Int32Array(0), counts: new Int32Array(0) }) };
const engine = new Engine({ ...OPTIONS, executor });
const bench = new Bench();
const session = bench.add('session', 6, { resumable: true });
const queue = new CompletionQueue();
const [source, target] = [BlockArena.allocate(SHAPE), BlockArena.allocate(SHAPE)];
const coreConfig: CoreConfig = {
  ...{ numBlocks: 33, blockSize: 4, numRows: 4, maxBlocksPerRow: 16, maxEntries: 4, maxModelLen: 64 },
  ...{ enablePrefixCaching: true, hashSeed: new Uint8Array(16) },
};
afterAll(() => {
  for (const each of [engine, bench.scheduler, queue, source, target]) each.dispose();
});

/**
 * Every object of options in the public interface: its receiver, a valid object, a wrong name, and
 * the message about it.
 */
const BAGS: Record<string, [take: (bag: never) => unknown, good: object, wrong: string, said: string]> = {
  'new Scheduler': [(o) => new Scheduler(o), OPTIONS, 'maxNumSeq', 'did you mean maxNumSeqs?'],
  'new Engine': [
    (o) => new Engine(o),
    { ...OPTIONS, executor },
    'executorTimeout',
    'did you mean executorTimeoutMs?',
  ],
  'Scheduler.add': [
    (request) => bench.scheduler.add(request),
    { id: 'a', ...REQUEST },
    'stopTokenId',
    'did you mean stopTokenIds?',
  ],
  'Scheduler.addChunk': [
    (chunk) => bench.scheduler.addChunk(session, chunk),
    { prompt: prompt(2) },
    'max_token',
    'did you mean maxTokens?',
  ],
  'Scheduler.resetPrefixCache': [
    (o) => bench.scheduler.resetPrefixCache(o),
    {},
    'resetRuning',
    'did you mean resetRunning?',
  ],
  'Scheduler.updateTransfers': [
    (output) => bench.scheduler.updateTransfers(output),
    {},
    'finishedRecieving',
    'did you mean finishedReceiving?',
  ],
  'Engine.submit': [(request) => engine.submit(request), REQUEST, 'adaptor', 'did you mean adapter?'],
  'options of Engine.submit': [(o) => engine.submit(REQUEST, o), {}, 'signals', 'did you mean signal?'],
  'Engine.shutdown': [(o) => engine.shutdown(o), {}, 'drain', 'did you mean drainMs?'],
  'Engine.resetPrefixCache': [(o) => engine.resetPrefixCache(o), {}, 'connector', 'got "connector"'],
  deadlines: [(o) => new Scheduler({ ...OPTIONS, deadlines: o }), { load: 5 }, 'loads', 'did you mean load?'],
  'executor.limits': [
    (limits) => new Engine({ ...OPTIONS, executor: { ...executor, limits } }),
    { canRollBack: true },
    'maxNumSeq',
    'did you mean maxNumSeqs?',
  ],
  'new ReferenceExecutor': [
    (o) => new ReferenceExecutor(o),
    OPTIONS,
    'onMissmatch',
    'did you mean onMismatch?',
  ],
  'new CostModelExecutor': [
    (o) => new CostModelExecutor(o),
    { ...COST, maxEntries: 4, maxDrafts: 0 },
    'acceptRate',
    'did you mean acceptanceRate?',
  ],
  'a cost model': [
    (model) => new CostModelExecutor({ ...COST, model, maxEntries: 4, maxDrafts: 0 }),
    DEFAULT_COST_MODEL,
    'overheadMs',
    'got "overheadMs"',
  ],
  'new Core': [(config) => new Core(config), coreConfig, 'pendingCapasity', 'did you mean pendingCapacity?'],
  'BlockArena.allocate': [
    (config) => BlockArena.allocate(config),
    SHAPE,
    'numBlock',
    'did you mean numBlocks?',
  ],
  'new CompletionQueue': [(o) => new CompletionQueue(o), {}, 'capasity', 'did you mean capacity?'],
  'new HostLane': [(o) => new HostLane(queue, source, target, o), {}, 'thread', 'did you mean threads?'],
  generateWorkload: [
    (o) => generateWorkload(o),
    { requests: 1, requestRate: 1, seed: 1 },
    'rate',
    'got "rate"',
  ],
};

describe.each(Object.entries(BAGS))('%s', (_, [take, good, wrong, said]) => {
  const call = (bag: object) => (take as (bag: object) => unknown)(bag);

  it('refuses a name that nobody reads, and says what was meant', () => {
    const before = snapshot(bench.scheduler);
    for (const bag of [
      { ...good, [wrong]: 1 },
      { ...good, [wrong]: undefined },
      Object.create({ ...good, [wrong]: 1 }),
    ]) {
      const error = errorOf(() => call(bag as object));
      expect(codeOfError(error)).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expectReadable(error);
      expect((error as Error).message).toContain(JSON.stringify(wrong));
      expect((error as Error).message).toContain(said);
    }
    expect(snapshot(bench.scheduler)).toEqual(before);
    expect(engine.numUnfinished).toBe(0);
  });

  it('passes on what a proxy throws, and changes nothing', () => {
    const before = snapshot(bench.scheduler);
    expect(errorOf(() => call(new Proxy({ ...good }, { ownKeys: () => raise() })))).toBe(MINE);
    expect(errorOf(() => call(throwingProxy({ ...good })))).toBe(MINE);
    expect(snapshot(bench.scheduler)).toEqual(before);
    expect(engine.numUnfinished).toBe(0);
  });
});

function raise(): never {
  throw MINE;
}

describe('names that people know from elsewhere', () => {
  const ofScheduler = (name: string): string => messageOf(() => new Scheduler({ ...OPTIONS, [name]: 1 }));
  const ofRequest = (name: string): string => messageOf(() => engine.submit({ ...REQUEST, [name]: 1 }));
  const messageOf = (call: () => unknown): string => (errorOf(call) as Error).message;

  it.each([
    ['max_num_seqs', 'maxNumSeqs'],
    ['max_num_batched_tokens', 'maxNumBatchedTokens'],
    ['num_gpu_blocks', 'numBlocks'],
    ['scheduling_policy', 'policy'],
    ['async_scheduling', 'pipelineDepth 2'],
    ['kv_load_failure_policy', 'loadFailurePolicy'],
    ['gpu_memory_utilization', 'numBlocks sets'],
    ['executor', 'an option of an Engine'],
    ['stallSteps', 'an option of an Engine'],
  ])('in the options of a Scheduler: %s', (name, word) => {
    expect(ofScheduler(name)).toContain(word);
  });

  it.each([
    ['max_tokens', 'did you mean maxTokens?'],
    ['max_new_tokens', 'did you mean maxTokens?'],
    ['promptTokenIds', 'did you mean prompt'],
    ['input_ids', 'did you mean prompt'],
    ['temperature', 'belongs in params'],
    ['top_p', 'belongs in params'],
    ['seed', 'belongs in params'],
    ['stop', 'call stop()'],
    ['n', 'submit it several times'],
    ['signal', 'submit(request, { signal })'],
    ['lora_request', 'did you mean adapter?'],
    ['response_format', 'did you mean grammar?'],
  ])('in a request: %s', (name, word) => {
    expect(ofRequest(name)).toContain(word);
  });

  it('in a chunk, and in the options of submit', () => {
    const chunk = { prompt: prompt(2), priority: 1 } as never;
    expect(messageOf(() => bench.scheduler.addChunk(session, chunk))).toContain('opened the session');
    expect(messageOf(() => engine.submit(REQUEST, { priority: 1 } as never))).toContain(
      'field of the request',
    );
  });
});

it('one object of options does for an engine and for its reference executor', () => {
  const all: Omit<EngineOptions, 'executor'> = {
    ...OPTIONS,
    policy: 'priority',
    executorTimeoutMs: 5,
    strict: true,
  };
  new Engine({ ...all, executor: new ReferenceExecutor(all) }).dispose();
  const scheduler = new Scheduler(OPTIONS);
  new ReferenceExecutor({ ...scheduler.config, seed: 3 }).dispose();
  scheduler.dispose();
});

it('an option that only the prototype has is read', () => {
  const scheduler = new Scheduler(
    Object.create({ ...OPTIONS, deadlines: Object.create({ load: 7 }) as object }),
  );
  expect([scheduler.config.blockSize, scheduler.config.deadlines.load]).toEqual([4, 7]);
  const inherited = Object.create({ ...REQUEST, id: 'b' }) as RequestInput;
  expect(scheduler.get('b')).toBeUndefined();
  scheduler.add(inherited);
  expect(scheduler.get('b')?.numTokens).toBe(6);
});

it('refuses an unknown option of readTrace', async () => {
  await expect(readTrace('/nowhere', { skipbad: true } as never)).rejects.toThrow('did you mean skipBad?');
});

describe('a result', () => {
  it('of a step may have further names; one that lacks a field is told what stands there instead', () => {
    const lives = benchIn('running');
    const plan = lives.schedule();
    const { tokens, counts } = resultOf(plan);
    const before = snapshot(lives.scheduler);
    const wrong = { token: tokens, counts } as never;
    const error = errorOf(() => lives.scheduler.update(plan, wrong));
    expect((error as Error).message).toBe(
      'tokens must be an Int32Array, got undefined; did you mean tokens by "token"?',
    );
    expect(snapshot(lives.scheduler)).toEqual(before);
    expect(
      (errorOf(() => lives.scheduler.update(plan, { tokens, count: counts } as never)) as Error).message,
    ).toContain('did you mean counts by "count"?');
    lives.scheduler.update(plan, { tokens, counts, startMs: 5 } as never);
  });
});

it('the drafts of an executor that lack a field are counted, and the channel says what stands there', () => {
  const details: string[] = [];
  const listen = (message: unknown) => details.push((message as { detail: string }).detail);
  subscribe('blockstep:engine:wrong-answer', listen);
  const drafts = { tokens: Int32Array.of(1), count: Int32Array.of(1) };
  const answer = { tokens: Int32Array.of(1), counts: Int32Array.of(1), drafts } as never;
  const drafting = new Engine({ ...OPTIONS, numSpeculativeTokens: 1, executor: { execute: () => answer } });
  drafting
    .submit(REQUEST)
    .result()
    .catch(() => {});
  drafting.step();
  unsubscribe('blockstep:engine:wrong-answer', listen);
  expect(drafting.stats().wrongAnswers).toBe(1);
  expect(details).toEqual([expect.stringContaining('did you mean counts by "count"?')]);
  drafting.dispose();
});

it('drafts that lack a field are told what stands there instead', () => {
  const messageOf = (call: () => unknown): string => (errorOf(call) as Error).message;
  const drafts = { token: Int32Array.of(1), counts: Int32Array.of(1) } as never;
  const lives = benchIn('running');
  const plan = lives.schedule();
  lives.scheduler.update(plan, resultOf(plan));
  expect(messageOf(() => lives.scheduler.updateDraftTokens(plan, drafts))).toContain('tokens by "token"');
  const ahead = benchIn('running', { pipelineDepth: 2 });
  expect(messageOf(() => ahead.scheduler.replaceDraftTokens(ahead.schedule(), drafts))).toContain(
    'tokens by "token"',
  );
});

it('the answer of an executor that lacks a field says so to the reader', async () => {
  const wrong = { execute: () => ({ tokens: Int32Array.of(1), count: Int32Array.of(1) }) } as never;
  const failing = new Engine({ ...OPTIONS, executor: wrong });
  const result = failing.submit(REQUEST).result();
  result.catch(() => {});
  failing.step();
  failing.step();
  await expect(result).rejects.toMatchObject({
    code: 'ERR_BLOCKSTEP_EXECUTOR',
    cause: { message: expect.stringContaining('did you mean counts by "count"?') as string },
  });
  failing.dispose();
});
