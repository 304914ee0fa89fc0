// `requestsFinished` names every ended request once, after its last step in flight.
import { describe, expect, it } from 'vitest';
import { Engine, type EngineOptions, type ExecutorPlan, type RequestStream } from '../../../src/index.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { FakeExecutor, leftovers, prompt, rejection, settled } from '../../support/engine-bench.js';
import { FakeGrammar } from '../../support/fake-grammar.js';
import { schedulerOf } from '../../support/scheduler-of.js';
import { AttentiveExecutor, moody } from './attentive-executor.js';
import { AttentiveLife } from './attentive-life.js';

/** An executor that is notified of ends. */
class HearingExecutor extends FakeExecutor {
  readonly events: string[] = [];
  onFinished: (handles: readonly number[]) => unknown = () => {};

  requestsFinished(handles: readonly number[]): unknown {
    this.events.push(`finished ${handles.join()}`);
    return this.onFinished(handles);
  }

  override execute(plan: ExecutorPlan): ReturnType<FakeExecutor['execute']> {
    this.events.push(`execute ${plan.requests.slice(0, plan.numRequests).map(({ handle }) => handle)}`);
    return super.execute(plan);
  }
}

class Bench {
  readonly executor: HearingExecutor;
  readonly engine: Engine;
  time = 0;

  constructor(options: Partial<EngineOptions> = {}, async = false) {
    this.executor = new HearingExecutor(async);
    this.engine = new Engine({
      numBlocks: 33,
      blockSize: 4,
      maxNumSeqs: 2,
      maxNumBatchedTokens: 32,
      maxModelLen: 64,
      now: () => this.time,
      executor: this.executor,
      ...options,
    });
  }

  submit(id: string, more: object = {}): RequestStream {
    return this.engine.submit({ id, prompt: prompt(6), maxTokens: 2, ...more });
  }

  async finish(): Promise<void> {
    for (let i = 0; i < 100 && this.engine.step().state !== 'idle'; i++) await this.executor.deliver();
  }

  get told(): string[] {
    return this.executor.events.filter((event) => event.startsWith('finished'));
  }
}

describe('requestsFinished', () => {
  it('hears of the last request though no step comes behind it, and of none twice', async () => {
    const bench = new Bench();
    const { handle } = bench.submit('a');
    await bench.finish();
    expect(bench.executor.events).toEqual([`execute ${handle}`, `execute ${handle}`, `finished ${handle}`]);
  });

  it('hears of an end when no step in flight has the request, and not before', async () => {
    const bench = new Bench({ pipelineDepth: 2 }, true);
    const [a] = [bench.submit('a'), bench.submit('b', { maxTokens: 9 })];
    let isNamed = false;
    bench.executor.onExecute = ({ finishedHandles }) => {
      isNamed ||= finishedHandles.includes(a.handle);
    };
    const isTold = (): boolean => bench.executor.events.some((event) => event === `finished ${a.handle}`);
    bench.engine.step();
    bench.engine.step();
    a.abort();
    // The oldest step is answered, the next one still has the request; and a third, without it, names it.
    await bench.executor.deliver(1);
    bench.engine.step();
    bench.engine.step();
    expect([isNamed, isTold()]).toEqual([true, false]);
    await bench.executor.deliver(1);
    bench.engine.step();
    expect(isTold()).toBe(true);
    await bench.finish();
  });

  it.each<[string, object, (bench: Bench, stream: RequestStream) => unknown]>([
    ['stopped by its client', { maxTokens: 9 }, (_, stream) => stream.stop('x')],
    ['aborted while it runs', { maxTokens: 9 }, (_, stream) => stream.abort()],
    ['expired', { maxTokens: 9, timeoutMs: 5 }, (bench) => Object.assign(bench, { time: 10 })],
    [
      'failed by its row',
      { maxTokens: 9 },
      ({ executor }) => Object.assign(executor, { answer: () => null }),
    ],
    ['an ended session', { maxTokens: 1, resumable: true }, (_, stream) => stream.endInput()],
  ])('hears of one that was %s', async (_, input, end) => {
    const bench = new Bench();
    const stream = bench.submit('a', input);
    stream.result().catch(() => {});
    bench.engine.step();
    expect(bench.told).toEqual([]);
    end(bench, stream);
    await bench.finish();
    expect(bench.told).toEqual([`finished ${stream.handle}`]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('hears of those that were in no plan: aborted while they waited, or loaded, or for a grammar that is not ready', async () => {
    const bench = new Bench({ connector: new ScriptedConnector({ c: { ext: 4, async: true } }) });
    const streams = [
      bench.submit('a', { grammar: new FakeGrammar({ notReady: 99 }) }),
      bench.submit('c'),
      bench.submit('b'),
    ];
    bench.engine.step();
    bench.submit('d').abort();
    for (const stream of streams) stream.abort();
    await bench.finish();
    schedulerOf(bench.engine).updateTransfers({ finishedReceiving: [{ handle: streams[1].handle }] });
    await bench.finish();
    const told = bench.told.flatMap((event) => event.slice('finished '.length).split(','));
    expect(new Set(told).size).toBe(told.length);
    expect(told).toEqual(expect.arrayContaining(streams.map(({ handle }) => `${handle}`)));
    expect(told.length).toBe(4);
  });

  it.each([
    ['throws', () => raise(new Error('mine'))],
    ['rejects', () => Promise.reject(new Error('mine'))],
    ['answers what cannot be awaited', () => Object.defineProperty({}, 'then', { get: () => raise(1) })],
  ])('that %s is counted, and changes nothing', async (_, act) => {
    const bench = new Bench();
    bench.executor.onFinished = act;
    const streams = [bench.submit('a'), bench.submit('b', { maxTokens: 3 })];
    await bench.finish();
    await settled();
    expect((await streams[1].result()).finishReason).toBe('length');
    expect(bench.engine.stats().wrongAnswers).toBe(2);
    expect(bench.told.length).toBe(2);
  });

  it('may submit and abort, and change its list; it may not step the engine, nor dispose it', async () => {
    const bench = new Bench();
    const refused: string[] = [];
    let next: RequestStream | null = null;
    const named: number[] = [];
    bench.executor.onExecute = ({ finishedHandles }) => void named.push(...finishedHandles);
    bench.executor.onFinished = (handles) => {
      (handles as number[]).length = 0;
      for (const call of [() => bench.engine.step(), () => bench.engine.dispose()]) {
        try {
          call();
        } catch (error) {
          refused.push((error as Error).message);
        }
      }
      if (next !== null) return;
      next = bench.submit('next', { maxTokens: 9 });
      bench.engine.abort('b');
    };
    const [a, b] = [bench.submit('a'), bench.submit('b', { maxTokens: 9 })];
    await bench.finish();
    const message = 'the engine was called from inside executor.requestsFinished(), which it is just calling';
    expect(refused).toEqual(refused.map(() => message));
    expect(refused.length).toBe(6);
    expect((await b.result()).finishReason).toBe('abort');
    expect((await (next as unknown as RequestStream).result()).tokens.length).toBe(9);
    expect(bench.told.length).toBe(3);
    expect((await a.result()).finishReason).toBe('length');
    expect(named).toEqual([a.handle, b.handle]);
  });

  it('is not called after dispose, and a request that it submits behind the last end is computed by run()', async () => {
    const bench = new Bench();
    let more: RequestStream | null = null;
    bench.executor.onFinished = () => {
      more ??= bench.submit('more');
    };
    bench.engine.run();
    await bench.submit('a').result();
    while (more === null) await new Promise((resolve) => setImmediate(resolve));
    expect((await (more as RequestStream).result()).finishReason).toBe('length');
    const told = bench.told.length;
    const late = bench.submit('late');
    bench.engine.dispose();
    await rejection(late.result());
    expect(bench.told.length).toBeLessThanOrEqual(told + 1);
    expect(bench.told.join()).not.toContain(`${late.handle}`);
  });

  it('and the next step that is executed hear of all that ended in plans with nothing to execute', async () => {
    const bench = new Bench({ pipelineDepth: 2, maxNumSeqs: 1 }, true);
    const named: string[] = [];
    bench.executor.onExecute = ({ finished, finishedHandles }) =>
      void named.push(`${finished} ${finishedHandles.map((handle) => handles.indexOf(handle))}`);
    const handles: number[] = [];
    const submit = (id: string, more = {}) => {
      const stream = bench.submit(id, more);
      handles.push(stream.handle);
      return stream;
    };
    submit('a', { maxTokens: 1 });
    bench.engine.step();
    for (const id of ['b', 'c', 'b']) {
      const stream = submit(id);
      stream.abort();
      expect(bench.engine.step()).toMatchObject({ scheduledTokens: 0, stepsInFlight: 1 });
    }
    expect(bench.told).toEqual([]);
    submit('d', { maxTokens: 1 });
    await bench.executor.deliver();
    bench.engine.step();
    bench.engine.step();
    expect(named.join(';')).toMatch(/^ ;b,c(,a)? 1,2,3(,0)?$/);
    expect(bench.told.join().split(/[ ,]/).slice(1, 4)).toEqual(handles.slice(1, 4).map(String));
    await bench.finish();
  });

  it('a request that was preempted in a plan with nothing to execute is named in the next step', async () => {
    const bench = new Bench({ pipelineDepth: 2, numBlocks: 5, reserveFullIsl: false, maxModelLen: 16 }, true);
    const named: string[] = [];
    bench.executor.onExecute = ({ preempted, preemptedHandles }) =>
      void named.push(preempted.map((id, i) => `${id} ${preemptedHandles[i]}`).join());
    bench.submit('a', { prompt: prompt(7) });
    // Its third block does not fit beside those of a, whose last token is in flight; so it is preempted itself.
    const b = bench.submit('b', { prompt: prompt(7, 1), maxTokens: 4 });
    for (let i = 0; i < 2; i++) bench.engine.step();
    await bench.executor.deliver();
    bench.engine.step();
    expect(bench.engine.step()).toMatchObject({ scheduledTokens: 0 });
    expect(bench.engine.stats().scheduler.numPreemptions).toBe(1);
    await bench.finish();
    expect(named.filter((one) => one !== '')).toEqual([`b ${b.handle}`]);
    expect((await b.result()).tokens.length).toBe(4);
  });

  it('in random lives: every handle once, and none that a step has which is executed later', async () => {
    const wrong: string[] = [];
    let numTold = 0;
    for (let seed = 0; seed < 36; seed++) {
      const told = new Set<number>();
      const named = new Set<number>();
      const life = new AttentiveLife(seed, (shape, random) => {
        const executor = new AttentiveExecutor(shape, {
          requestsFinished: (handles) => {
            for (const handle of handles) {
              if (told.has(handle)) wrong.push(`seed ${seed}: ${handle} ended twice`);
              told.add(handle);
            }
            executor.batch.forget(handles);
          },
        });
        executor.mood = moody(random, 20);
        executor.onStep = ({ step, finishedHandles, requests, numRequests }) => {
          for (const handle of finishedHandles) {
            if (named.has(handle)) wrong.push(`seed ${seed}: step ${step} names ${handle} again`);
            named.add(handle);
          }
          for (const { handle } of requests.slice(0, numRequests))
            if (told.has(handle)) wrong.push(`seed ${seed}: step ${step} has ${handle}, which has ended`);
        };
        return executor;
      });
      await life.run(140);
      const handles = life.told.map(({ stream }) => stream.handle);
      wrong.push(
        ...handles.filter((handle) => !told.has(handle)).map((handle) => `seed ${seed}: ${handle} never`),
      );
      if (told.size !== handles.length) wrong.push(`seed ${seed}: ${told.size} of ${handles.length}`);
      numTold += told.size;
      life.engine.dispose();
    }
    expect(wrong).toEqual([]);
    expect(numTold).toBeGreaterThan(500);
  });
});

function raise(error: unknown): never {
  throw error;
}
