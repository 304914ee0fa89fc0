// Requests that an executor refuses are refused at their submission.
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../../src/base/errors.js';
import { Engine } from '../../../src/engine/engine.js';
import type { Executor, SubmittedRequest } from '../../../src/engine/executor/executor.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

/** An executor that refuses what `refuses` throws for. */
function executorOf(refuses: (request: SubmittedRequest) => void): Executor {
  return {
    usesTables: false,
    execute: ({ numRequests, maxOutputTokens }) => {
      const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
      return { tokens: new Int32Array(counts.length).fill(7), counts };
    },
    checkRequest: refuses,
  };
}

describe('what the executor refuses', () => {
  it('is refused by submit, with nothing changed', async () => {
    const seen: SubmittedRequest[] = [];
    const executor = executorOf((request) => {
      seen.push(request);
      if (request.prompt.includes(9)) throw new BlockstepError('ERR_BLOCKSTEP_UNFIT', 'no nine');
      if (request.adapter !== '') throw new Error('no adapters');
    });
    using engine = new Engine({ numBlocks: 16, executor });
    const refused = (code: string) => expect.objectContaining({ code });
    expect(() => engine.submit({ prompt: [1, 9], maxTokens: 2 })).toThrow(refused('ERR_BLOCKSTEP_UNFIT'));
    expect(() => engine.submit({ prompt: [1], maxTokens: 2, adapter: 'a' })).toThrow(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG', cause: expect.any(Error) }),
    );
    expect(engine.stats().scheduler).toMatchObject({ numWaiting: 0, numRunning: 0 });
    const grammar = new FakeGrammar();
    const params = { temperature: 1 };
    engine.run();
    await engine.submit({ prompt: [1, 2], maxTokens: 2, grammar, params }).result();
    expect(seen.at(-1)).toEqual({ prompt: Int32Array.of(1, 2), params, grammar, adapter: '' });
    expect(seen).toHaveLength(3);
  });

  it('is not asked about what is bad anyway', () => {
    let asked = 0;
    using engine = new Engine({ numBlocks: 16, executor: executorOf(() => asked++) });
    expect(() => engine.submit({ prompt: [], maxTokens: 2 })).toThrow();
    expect(() => engine.submit({ prompt: [1], maxTokens: 0 })).toThrow();
    expect(asked).toBe(0);
  });

  it('is refused by addChunk, and the session goes on', async () => {
    const executor = executorOf(({ prompt, params }) => {
      if (prompt.includes(9)) throw new Error(`no nine with ${JSON.stringify(params)}`);
    });
    using engine = new Engine({ numBlocks: 16, executor });
    engine.run();
    const stream = engine.submit({ prompt: [1], maxTokens: 2, resumable: true });
    expect(() => stream.addChunk({ prompt: [9], maxTokens: 2, params: { p: 1 } })).toThrow(
      /no nine with \{"p":1\}/,
    );
    expect(stream.addChunk({ prompt: [3], maxTokens: 2 })).not.toBe('skipped');
    stream.endInput();
    expect((await stream.result()).tokens).toHaveLength(4);
  });

  it('is said at once: a promise refuses the request, and its rejection is heard', async () => {
    const executor = { ...executorOf(() => {}), checkRequest: () => Promise.reject(new Error('late')) };
    using engine = new Engine({ numBlocks: 16, executor: executor as unknown as Executor });
    expect(() => engine.submit({ prompt: [1], maxTokens: 2 })).toThrow(
      /the executor refuses the request: .*answered an object \(Promise\) asynchronously/,
    );
    // An unheard rejection fails this test.
    await new Promise((resolve) => setImmediate(resolve));
    expect(engine.numUnfinished).toBe(0);
  });

  it('is named where it calls back', () => {
    const executor = executorOf(() => void engine.step());
    using engine = new Engine({ numBlocks: 16, executor: executorOf(() => {}) });
    engine.submit({ prompt: [1], maxTokens: 2 });
    using other: Engine = new Engine({
      numBlocks: 16,
      executor: { ...executor, checkRequest: () => void other.resetPrefixCache() },
    });
    expect(() => other.submit({ prompt: [1], maxTokens: 2 })).toThrow(
      /from inside executor\.checkRequest\(\)/,
    );
  });

  it('must be a function, if it is there', () => {
    const executor = { ...executorOf(() => {}), checkRequest: 3 } as unknown as Executor;
    expect(() => new Engine({ numBlocks: 16, executor })).toThrow(
      /executor.checkRequest must be a function, got 3/,
    );
  });
});
