// Errors that readers are rejected with carry the place of the submission and the client's reason.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from 'vitest';
import type { BlockstepError, RequestStream, SubmitInput, SubmitOptions } from '../../../src/index.js';
import { answerOf, EngineBench, outputs, rejection } from '../../support/engine-bench.js';

const { stackTraceLimit, prepareStackTrace } = Error;
afterEach(() => Object.assign(Error, { stackTraceLimit, prepareStackTrace }));

type Input = Partial<SubmitInput> & { id?: string };

function oneSite(bench: EngineBench, input: Input = {}, options: SubmitOptions = {}): RequestStream {
  return bench.engine.submit({ prompt: Int32Array.of(1, 2, 3), maxTokens: 4, ...input }, options);
}

function otherSite(bench: EngineBench): RequestStream {
  return bench.engine.submit({ prompt: Int32Array.of(4, 5, 6), maxTokens: 4 });
}

/** The part of a stack that tells of the submission. */
function submitted({ stack }: Error): string[] {
  const [failed, ...rest] = String(stack).split('\n  submitted\n');
  expect(failed).toMatch(/^BlockstepError: .*\n {4}at /);
  expect(rest).toHaveLength(1);
  return rest[0].split('\n');
}

const FAILURES: Record<string, [string, (bench: EngineBench) => void]> = {
  'the step fails': [
    'ERR_BLOCKSTEP_EXECUTOR',
    (bench) => {
      bench.executor.answer = () => {
        throw new Error('mine');
      };
      bench.steps();
    },
  ],
  'their rows fail': [
    'ERR_BLOCKSTEP_EXECUTOR',
    (bench) => {
      bench.executor.answer = (plan) => {
        const answer = answerOf(plan);
        answer.errors.fill(1);
        return answer;
      };
      bench.steps();
    },
  ],
  'the engine is disposed': ['ERR_BLOCKSTEP_DISPOSED', ({ engine }) => engine.dispose()],
  'the executor hangs': [
    'ERR_BLOCKSTEP_EXECUTOR_HUNG',
    (bench) => {
      bench.executor.answer = () => new Promise(() => {});
      bench.engine.step();
      bench.time += 1000;
      expect(() => bench.engine.step()).toThrow();
    },
  ],
};

// Pinned by: `PlaceNotes`, `failureAt` (submit-place.ts), `fail` (stream-buffer.ts), `submit` (engine.ts).
describe('an error that readers are rejected with says where the request was submitted', () => {
  it.each(Object.keys(FAILURES))('when %s', async (name) => {
    const [code, fail] = FAILURES[name];
    const bench = new EngineBench({ executorTimeoutMs: 100 });
    const streams = [oneSite(bench), otherSite(bench)];
    const reading = streams.map((stream) => rejection(outputs(stream)));
    const results = streams.map((stream) => rejection(stream.result()));
    fail(bench);
    const [one, other] = (await Promise.all(results)) as BlockstepError[];
    expect([one.code, other.code]).toEqual([code, code]);
    // The first frame is the very caller of submit.
    expect(submitted(one)[0]).toMatch(/^ {4}at oneSite .*submit-place\.test\.ts/);
    expect(submitted(other)[0]).toMatch(/^ {4}at otherSite .*submit-place\.test\.ts/);
    expect(await Promise.all(reading)).toEqual([one, other]);
  });

  it('when it took too long', async () => {
    const bench = new EngineBench();
    const stream = oneSite(bench, { timeoutMs: 10 });
    bench.time += 20;
    bench.steps();
    const error = (await rejection(stream.result())) as BlockstepError;
    expect(error.code).toBe('ERR_BLOCKSTEP_REQUEST');
    expect(submitted(error)[0]).toMatch(/at oneSite /);
    expect('cause' in error).toBe(false);
  });

  it('and keeps message, code and cause, also as a clone', async () => {
    const bench = new EngineBench();
    const mine = new Error('mine');
    bench.executor.answer = () => {
      throw mine;
    };
    const stream = oneSite(bench, { id: 'a' });
    bench.steps();
    const error = (await rejection(stream.result())) as BlockstepError;
    expect(error.message).toMatch(/"a".*mine/);
    expect(error.cause).toBe(mine);
    expect(mine.stack).not.toMatch(/submitted/);
    expect(structuredClone(error).stack).toBe(error.stack);
    expect(Object.keys(error).sort()).toEqual(['code', 'name']);
    error.stack = 'another';
    expect(error.stack).toBe('another');
  });
});

describe('the reason of a client', () => {
  it('is given back as it is', async () => {
    const bench = new EngineBench();
    const reason = Object.freeze(new Error('mine'));
    const { stack } = reason;
    const controller = new AbortController();
    const streams = [oneSite(bench), oneSite(bench, {}, { signal: controller.signal }), oneSite(bench)];
    streams[0].abort(reason);
    controller.abort(reason);
    bench.engine.abort(streams[2].id, reason);
    streams.push(oneSite(bench, {}, { signal: controller.signal }));
    for (const stream of streams) expect(await rejection(stream.result())).toBe(reason);
    expect(reason.stack).toBe(stack);
  });
});

describe('the place of a request', () => {
  async function failed(during: () => void = () => {}): Promise<Error> {
    const bench = new EngineBench();
    const stream = oneSite(bench);
    during();
    bench.engine.dispose();
    return (await rejection(stream.result())) as Error;
  }

  it.each([0, -1, Number.NaN, 'none', undefined])('is not noted with stackTraceLimit %s', async (limit) => {
    Error.stackTraceLimit = limit as number;
    const error = await failed();
    Error.stackTraceLimit = 10;
    expect(error.stack).toMatch(/^BlockstepError: the engine was disposed/);
    expect(error.stack).not.toMatch(/submitted/);
  });

  it('has as many frames as stackTraceLimit says', async () => {
    Error.stackTraceLimit = 2;
    expect(submitted(await failed())).toHaveLength(2);
  });

  /** Of which of `count` submissions the place was noted. */
  async function noted(bench: EngineBench, count: number): Promise<number[]> {
    const streams = Array.from({ length: count }, () => oneSite(bench));
    for (const stream of streams) stream.result().catch(() => {});
    bench.engine.dispose();
    const errors = await Promise.all(streams.map((stream) => rejection(stream.result())));
    return errors.flatMap((error, i) => (String((error as Error).stack).includes('submitted') ? [i] : []));
  }

  it('is noted of the first 1,000 of a second, and of one in 16 beyond them', async () => {
    const bench = new EngineBench();
    const places = await noted(bench, 1100);
    const beyond = [1007, 1023, 1039, 1055, 1071, 1087];
    expect(places).toEqual([...Array.from({ length: 1000 }, (_, i) => i), ...beyond]);
  });

  it('is noted of as many again in the next second', async () => {
    const bench = new EngineBench();
    for (let i = 0; i < 2000; i++) oneSite(bench).abort();
    bench.time += 999;
    for (let i = 0; i < 16; i++) oneSite(bench).abort();
    bench.time += 1;
    // The clock is asked with the sixteenth of them.
    const places = await noted(bench, 1100);
    expect(places).toEqual(
      Array.from({ length: 1001 }, (_, i) => 15 + i).concat(
        15 + 1008,
        15 + 1024,
        15 + 1040,
        15 + 1056,
        15 + 1072,
      ),
    );
  });

  it('is noted of all requests with submitPlaces all, and of none with none', async () => {
    expect(await noted(new EngineBench({ submitPlaces: 'all' }), 2500)).toHaveLength(2500);
    const silent = new EngineBench({ submitPlaces: 'none' });
    const batch = silent.engine.generate([[1, 2, 3]], { maxTokens: 4, onError: 'throw' });
    const failed = rejection(batch);
    expect(await noted(silent, 10)).toEqual([]);
    expect(((await failed) as Error).stack).not.toMatch(/submitted/);
    expect(() => new EngineBench({ submitPlaces: 'most' as never })).toThrow(
      /submitPlaces must be one of all, some, none, got "most"/,
    );
  });

  it('becomes text only when somebody reads it', async () => {
    let formatted = 0;
    const error = await failed(() => {
      Error.prepareStackTrace = (_, sites) => {
        formatted++;
        return `head\n    at ${sites[0].getFunctionName()}`;
      };
    });
    expect(formatted).toBe(0);
    expect(error.stack).toBe('head\n    at disposedError\n  submitted\n    at oneSite');
    expect(formatted).toBe(2);
  });

  it.each<[string, () => unknown]>([
    ['gives what is no text', () => [1, 2]],
    ['gives one line', () => 'here'],
  ])('is left out where a prepareStackTrace of the program %s', async (_, prepare) => {
    const error = await failed();
    Error.prepareStackTrace = prepare;
    const { stack } = error;
    Error.prepareStackTrace = prepareStackTrace;
    expect(typeof stack).toBe('string');
    expect(stack).not.toMatch(/submitted/);
  });

  it('is let go when the request ends', async () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const bench = new EngineBench();
    const { stream, site } = (() => {
      const site = () => oneSite(bench, { maxTokens: 1 });
      return { stream: site(), site: new WeakRef(site) };
    })();
    const isKept = async (): Promise<boolean> => {
      await new Promise((resolve) => setImmediate(resolve));
      gc();
      return site.deref() !== undefined;
    };
    expect(await isKept()).toBe(true);
    bench.steps();
    expect(await isKept()).toBe(false);
    expect(stream.ended).toBe(true);
  });
});
