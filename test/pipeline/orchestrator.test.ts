// The client's side: one end in every order, reconciliation, signals.
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { Pipeline } from '../../src/pipeline/pipeline.js';
import type { PipelineOptions } from '../../src/pipeline/pipeline-options.js';
import type { PipelineMessage, StageEnd } from '../../src/pipeline/transport/messages.js';
import { rejection } from '../support/engine-bench.js';
import { ByHand, Clock, codeOf } from './bench.js';

const END: StageEnd = {
  ...{ finishReason: 'length', stopReason: null, numPromptTokens: 1, numOutputTokens: 1, numCachedTokens: 0 },
  ...{ numPreemptions: 0, firstTokenMs: 1, endedMs: 2 },
};
const FIGURES = { requests: 0, parked: 0, chunksIn: 0, chunksOut: 0, troubles: [] };

/** A client whose stages `a` and `b` are played by the test. */
class ClientBench {
  readonly post = new ByHand();
  readonly clock = new Clock();
  readonly pipeline: Pipeline;

  constructor(options: Partial<PipelineOptions> = {}) {
    const stages = ['a', 'b'].map((name) => ({ name, remote: true as const }));
    const { post, clock } = this;
    this.pipeline = new Pipeline({
      stages,
      transport: post,
      now: clock.now,
      pingMs: 100,
      deadMs: 1000,
      ...options,
    });
  }

  submit(id = 'x', options = {}, more = {}) {
    const stream = this.pipeline.submit({ id, prompt: [1, 2], ...more }, options);
    const [submission] = this.post.drain('submit').map((message) => message.submission);
    return { stream, key: submission?.key ?? '' };
  }

  tell(...messages: PipelineMessage[]): void {
    this.post.tell(this.post.client, ...messages);
  }

  async tick(ms: number): Promise<void> {
    this.clock.ms += ms;
    await this.pipeline.step();
  }

  /** Answers the last ping for a stage. */
  pong(stage: string, number: number, keys: string[] = []): void {
    this.tell({ kind: 'pong', stage, number, keys, figures: FIGURES });
  }
}

const output = (key: string, stage: string, number: number, ...tokens: number[]): PipelineMessage => {
  const none = { extras: null, finishReason: null, stopReason: null };
  return { kind: 'output', key, stage, number, output: { tokens: Int32Array.from(tokens), ...none } };
};
const ended = (key: string, stage: string, numOutputs: number): PipelineMessage => ({
  ...{ kind: 'ended', key, stage, numOutputs, end: END },
});
const failed = (key: string, stage: string): PipelineMessage => ({
  ...{ kind: 'failed', key, stage, failure: { code: 'ERR_BLOCKSTEP_UNFIT', message: 'it is too long' } },
});

/** All that a reader gets, and how it ends. */
async function readAll(stream: ReturnType<Pipeline['submit']>) {
  const tokens: number[] = [];
  const ends: unknown[] = [];
  try {
    for await (const each of stream) {
      tokens.push(...each.tokens);
      if (each.finishReason !== null && !each.continues) ends.push(each.finishReason);
    }
  } catch (error) {
    ends.push(error);
  }
  return { tokens, ends };
}

describe('the orchestrator', () => {
  it('submits to the last stage first, with what each stage needs, under keys that never come again', () => {
    const bench = new ClientBench();
    bench.pipeline.submit({ id: 'x', prompt: [1, 2], maxTokens: 3, stages: { b: { maxTokens: 9 } } });
    const [b, a] = bench.post.drain('submit').map(({ submission }) => submission);
    expect(b).toMatchObject({ id: 'x', from: 'stage/a', to: null, wants: true, fields: { maxTokens: 9 } });
    expect(a).toMatchObject({ id: 'x', from: null, to: 'stage/b', wants: false, fields: { maxTokens: 3 } });
    expect([a.key, [...a.prompt], b.prompt.length]).toEqual([b.key, [1, 2], 0]);
    bench.pipeline.abort('x');
    expect(bench.submit('x').key).not.toBe(a.key);
  });

  it('ends a request once, in every order of its messages', async () => {
    const kinds = ['out', 'endA', 'endB', 'fail', 'abort'] as const;
    const orders = permutations(kinds);
    for (const order of orders) {
      const bench = new ClientBench();
      const { stream, key } = bench.submit();
      const read = readAll(stream);
      const result = stream.result().then(
        ({ finishReason }) => finishReason,
        (error: unknown) => error,
      );
      let expected: string | null = null;
      let seen = 0;
      const done = new Set<string>();
      for (const kind of order) {
        if (kind === 'out') bench.tell(output(key, 'b', 1, 7));
        if (kind === 'endA') bench.tell(ended(key, 'a', 0));
        if (kind === 'endB') bench.tell(ended(key, 'b', 1));
        if (kind === 'fail') bench.tell(failed(key, 'a'));
        if (kind === 'abort') stream.abort();
        done.add(kind);
        if (expected !== null) continue;
        if (kind === 'out') seen = 1;
        else if (kind === 'endB' && seen === 0) expected = 'gap';
        else if (kind === 'fail') expected = 'fail';
        else if (kind === 'abort') expected = 'abort';
        else if (done.has('endA') && done.has('endB')) expected = 'length';
      }
      const { tokens, ends } = await read;
      expect(ends.length).toBe(1);
      expect(await result).toBe(ends[0]);
      expect(tokens).toEqual(seen === 1 ? [7] : []);
      if (expected === 'fail')
        expect(String(ends[0])).toMatch(/request "x" failed in stage a: it is too long/);
      else if (expected === 'gap')
        expect(String(ends[0])).toMatch(/stage b: some of its outputs did not come/);
      else expect(ends[0]).toBe(expected);
      const aborts = bench.post.drain('abort').length;
      expect(aborts).toBe(expected === 'length' ? 0 : 2);
      const { completed, aborted, failed: numFailed } = bench.pipeline.stats();
      expect(completed + aborted + numFailed).toBe(1);
      expect(bench.pipeline.numUnfinished).toBe(0);
    }
    expect(orders.length).toBe(120);
  });

  it('drops and counts what comes of a request that has ended, also where its id is used again', async () => {
    const bench = new ClientBench();
    const old = bench.submit();
    old.stream.abort();
    const { stream, key } = bench.submit();
    bench.tell(output(old.key, 'b', 1, 9), failed(old.key, 'b'), ended(old.key, 'a', 0));
    bench.tell(output(key, 'b', 1, 5), ended(key, 'a', 0), ended(key, 'b', 1), ended(key, 'b', 1));
    expect(await readAll(stream)).toEqual({ tokens: [5], ends: ['length'] });
    expect(bench.pipeline.stats()).toMatchObject({ lateOutputs: 4, completed: 1, aborted: 1 });
    expect(bench.pipeline.stats().anomalies).toEqual({});
  });

  it('skips what comes twice, and fails what has a gap', async () => {
    const bench = new ClientBench();
    const { stream, key } = bench.submit();
    bench.tell(output(key, 'b', 1, 5), output(key, 'b', 1, 5), output(key, 'b', 2, 6), ended(key, 'a', 0));
    bench.tell(ended(key, 'a', 0), output(key, 'b', 4, 8));
    const error = await rejection(stream.result());
    expect(String(error)).toMatch(/failed in stage b: some of its outputs did not come/);
    expect((await readAll(stream)).tokens).toEqual([5, 6]);
    expect(bench.pipeline.stats().anomalies).toEqual({ 'foreign-message': 2 });
  });

  it('refuses an id that is in use and more than maxRequests, and changes nothing', () => {
    const bench = new ClientBench({ maxRequests: 2 });
    bench.submit('x');
    expect(codeOf(() => bench.submit('x'))).toBe('ERR_BLOCKSTEP_DUPLICATE_ID');
    const { stream } = bench.submit('y');
    expect(codeOf(() => bench.submit('z'))).toBe('ERR_BLOCKSTEP_OVERLOADED');
    stream.abort();
    bench.submit('z');
    expect([bench.pipeline.numUnfinished, bench.post.drain('abort').length]).toEqual([2, 2]);
  });

  it('gives outputs of the stages that were asked for, in the order in which they come', async () => {
    const bench = new ClientBench();
    const { stream, key } = bench.submit('x', { outputs: ['a', 'b'] });
    bench.tell(
      output(key, 'a', 1, 1),
      output(key, 'a', 2, 2),
      output(key, 'b', 1, 3),
      output(key, 'a', 3, 4),
    );
    bench.tell(ended(key, 'a', 3), ended(key, 'b', 1));
    const got: [string, number[], number][] = [];
    for await (const each of stream) got.push([each.stage, [...each.tokens], each.numOutputTokens]);
    expect(got).toEqual([
      ['a', [1, 2], 2],
      ['b', [3], 1],
      ['a', [4], 3],
      ['b', [], 1],
    ]);
    const { stages } = await stream.result();
    expect([...(stages['a'].tokens ?? [])]).toEqual([1, 2, 4]);
  });

  it('hears a signal that was aborted already, one that is aborted later, and lets go of it at the end', async () => {
    const bench = new ClientBench();
    const gone = bench.submit('x', { signal: AbortSignal.abort('gone') });
    expect([await rejection(gone.stream.result()), gone.stream.ended, bench.post.sent]).toEqual([
      'gone',
      true,
      [],
    ]);
    const controller = new AbortController();
    const { stream, key } = bench.submit('x', { signal: controller.signal });
    const other = bench.submit('y', { signal: controller.signal });
    expect(getEventListeners(controller.signal, 'abort').length).toBe(2);
    bench.tell(ended(other.key, 'a', 0), ended(other.key, 'b', 0));
    expect(getEventListeners(controller.signal, 'abort').length).toBe(1);
    const reason = new Error('enough');
    bench.tell(output(key, 'b', 1, 5));
    controller.abort(reason);
    expect(await readAll(stream)).toEqual({ tokens: [], ends: [reason] });
    expect(getEventListeners(controller.signal, 'abort').length).toBe(0);
    expect(bench.pipeline.stats()).toMatchObject({ aborted: 2, completed: 1, requests: 0 });
  });

  it('ends a request whose time is over, and knows when that is', async () => {
    const bench = new ClientBench();
    const { stream } = bench.submit('x', {}, { timeoutMs: 50 });
    expect(bench.pipeline.nextDeadline).toBeLessThanOrEqual(1050);
    await bench.tick(49);
    expect(stream.ended).toBe(false);
    await bench.tick(1);
    expect(String(await rejection(stream.result()))).toMatch(/it took 50 ms, more than its timeoutMs/);
  });
});

describe('what can never be sent', () => {
  it('fails its request alone, whichever stage the submission was for, and says why', async () => {
    const bench = new ClientBench();
    const { stream } = bench.submit('lives');
    for (const stage of ['a', 'b']) {
      bench.post.refuses = (message) =>
        message.kind === 'submit' && message.submission.to === (stage === 'a' ? 'stage/b' : null)
          ? 'it is a function'
          : null;
      const failing = bench.pipeline.submit({ id: 'x', prompt: [1] });
      expect(await rejection(failing.result())).toMatchObject({
        code: 'ERR_BLOCKSTEP_REQUEST',
        message: `request "x" failed in stage ${stage}: its submit cannot be sent: it is a function`,
      });
      bench.post.drain('submit');
      // Stages that got the request before also get its end.
      expect(bench.post.drain('abort').length).toBe(2);
    }
    expect([stream.ended, bench.pipeline.stats().failed]).toEqual([false, 2]);
  });

  it('fails a session by its chunk', async () => {
    const bench = new ClientBench();
    const { stream } = bench.submit('x', {}, { resumable: true });
    bench.post.refuses = ({ kind }) => (kind === 'chunk' ? 'too large' : null);
    expect(stream.addChunk({ prompt: [1] })).toBe('skipped');
    expect(String(await rejection(stream.result()))).toMatch(
      /in stage a: its chunk cannot be sent: too large/,
    );
    expect(stream.addChunk({ prompt: [1] })).toBe('skipped');
  });
});

describe('reconciliation', () => {
  it('fails a request that a stage twice does not know, and no earlier; answers count once and in order', async () => {
    const bench = new ClientBench();
    await bench.tick(0);
    const { stream, key } = bench.submit();
    bench.pong('a', 1);
    await bench.tick(100);
    await bench.tick(100);
    expect(bench.post.drain('ping').map(({ number }) => number)).toEqual([1, 1, 2, 2, 3, 3]);
    bench.pong('a', 2);
    bench.pong('a', 2);
    bench.pong('a', 1);
    bench.pong('a', 99);
    expect(stream.ended).toBe(false);
    bench.pong('b', 3, [key]);
    bench.pong('a', 3);
    expect(String(await rejection(stream.result()))).toMatch(
      /in stage a: it does not know the request any more/,
    );
  });

  it('takes two misses in a row only, and none behind an end', async () => {
    const bench = new ClientBench();
    const { stream, key } = bench.submit();
    for (const known of [false, true, false, true, false]) {
      await bench.tick(100);
      const number = bench.post.drain('ping').at(-1)?.number ?? 0;
      bench.pong('a', number, known ? [key] : []);
      bench.pong('b', number, [key]);
    }
    bench.tell(ended(key, 'a', 0));
    for (let i = 0; i < 3; i++) {
      await bench.tick(100);
      const number = bench.post.drain('ping').at(-1)?.number ?? 0;
      bench.pong('a', number);
      bench.pong('b', number, [key]);
    }
    expect(stream.ended).toBe(false);
  });

  it('aborts again what a stage still has and nobody wants', async () => {
    const bench = new ClientBench();
    const { stream, key } = bench.submit();
    stream.abort();
    bench.post.drain('abort');
    await bench.tick(0);
    bench.pong('b', 1, [key]);
    expect(bench.post.drain('abort')).toEqual([{ kind: 'abort', key }]);
  });

  it('fails the requests of a stage that does not answer for deadMs, but not for time that it slept itself', async () => {
    const bench = new ClientBench();
    const { stream } = bench.submit();
    await bench.tick(5000);
    await bench.tick(5000);
    expect(stream.ended).toBe(false);
    for (let i = 0; i < 9; i++) {
      await bench.tick(100);
      bench.pong('a', bench.post.drain('ping').at(-1)?.number ?? 0, []);
      expect(stream.ended).toBe(i > 0);
      if (stream.ended) break;
    }
    const other = bench.submit('y');
    for (let i = 0; i < 12 && !other.stream.ended; i++) {
      await bench.tick(100);
      bench.pong('a', bench.post.drain('ping').at(-1)?.number ?? 0, [other.key]);
    }
    expect(String(await rejection(other.stream.result()))).toMatch(
      /in stage b: it has not answered for \d+ ms/,
    );
  });

  it('fails what a stage may have said something of that was lost: not what has ended there, and nothing for strangers', async () => {
    const bench = new ClientBench();
    const over = bench.submit('over');
    bench.tell(ended(over.key, 'b', 0));
    const { stream } = bench.submit('x');
    const mailbox = bench.post.mailboxes.get(bench.post.client);
    mailbox?.lost('stage/elsewhere', '1 messages of stage/elsewhere did not come');
    mailbox?.lost('client/b', '1 messages of client/b did not come');
    expect(bench.pipeline.stats()).toMatchObject({ requests: 2, anomalies: { 'foreign-message': 2 } });
    mailbox?.lost('stage/b', '3 messages of stage/b did not come');
    expect(String(await rejection(stream.result()))).toMatch(
      /"x" failed in stage b: 3 messages of stage\/b did not come/,
    );
    expect(over.stream.ended).toBe(false);
    bench.tell(ended(over.key, 'a', 0));
    expect((await over.stream.result()).finishReason).toBe('length');
    const other = bench.submit('y');
    bench.tell(ended(other.key, 'b', 0));
    mailbox?.lost('stage/a', '1 messages of stage/a did not come');
    expect(String(await rejection(other.stream.result()))).toMatch(/in stage a: 1 messages/);
  });

  it('fails everything if the transport has lost something', async () => {
    const bench = new ClientBench();
    const { stream } = bench.submit();
    bench.post.mailboxes.get(bench.post.client)?.lost(null, 'the server was restarted');
    const error = (await rejection(stream.result())) as { code: string };
    expect([error.code, String(error)]).toEqual([
      'ERR_BLOCKSTEP_STAGE',
      expect.stringContaining('server was restarted'),
    ]);
  });

  it('asks stages elsewhere what a request waits for, for at most a second', async () => {
    const bench = new ClientBench();
    bench.submit();
    const told = bench.pipeline.explain('x');
    const [a] = bench.post.drain('explain');
    bench.tell({ kind: 'explained', ask: a.ask, text: 'is computing' });
    bench.tell(
      { kind: 'explained', ask: a.ask, text: 'again' },
      { kind: 'explained', ask: 77, text: 'never' },
    );
    expect(bench.pipeline.nextDeadline).toBeLessThanOrEqual(2000);
    await bench.tick(1000);
    expect(await told).toBe(
      'request "x": a: is computing; b: was submitted 1000 ms ago, and has not been heard of since; the stage does not answer',
    );
    expect(await bench.pipeline.explain('nobody')).toMatch(/"nobody" is not known/);
  });
});

function permutations<T>(of: readonly T[]): T[][] {
  if (of.length === 0) return [[]];
  return of.flatMap((first, i) =>
    permutations([...of.slice(0, i), ...of.slice(i + 1)]).map((rest) => [first, ...rest]),
  );
}
