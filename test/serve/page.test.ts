// The page's routes: the document and its policy, figures, the map of blocks, requests; no cost
// without viewers.
import { createHash } from 'node:crypto';
import { get } from 'node:http';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { channels } from '../../src/base/channels.js';
import { Engine, ReferenceExecutor } from '../../src/index.js';
import { BlockState } from '../../src/scheduler/inspect/block-state.js';
import { Inspection } from '../../src/scheduler/inspect/inspection.js';
import type { BlockFacts, Figures, RequestFacts, RequestList } from '../../src/serve/page/answers.js';
import { BlockSnapshots } from '../../src/serve/page/block-snapshots.js';
import { Sampler } from '../../src/serve/page/sampler.js';
import { StepWatch } from '../../src/serve/page/step-watch.js';
import { pause, until } from '../support/waiting.js';
import { isEmpty, type Served, serve } from './support/served.js';

const LONG = { prompt: 'one two one two one '.repeat(20), max_tokens: 1500, ignore_eos: true };
const OPTIONS = { numBlocks: 65, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };

/** A server whose answers are read as JSON. */
async function watch(served: Served = {}) {
  const all = await serve(served);
  const json = async <T>(path: string, init: RequestInit = {}): Promise<T> => {
    const response = await fetch(all.url + path, init);
    expect([path, response.status]).toEqual([path, 200]);
    return (await response.json()) as T;
  };
  const states = async (): Promise<Uint8Array> =>
    new Uint8Array(await (await fetch(`${all.url}/blocks`)).arrayBuffer());
  return { ...all, json, states };
}

/** An engine that nobody serves. */
function bare(): Engine {
  const engine = new Engine({ ...OPTIONS, executor: new ReferenceExecutor(OPTIONS) });
  onTestFinished(() => engine.dispose());
  return engine;
}

/** Has `performance.now` say what the test says, until its end. */
function setClock(start: number): { ms: number } {
  const clock = { ms: start };
  vi.spyOn(performance, 'now').mockImplementation(() => clock.ms);
  onTestFinished(() => void vi.restoreAllMocks());
  return clock;
}

const HEALTHY = { healthy: true, state: 'open', reasons: [], sinceStepMs: null } as const;
const SERVED = { model: 'm', version: '1', control: true };

describe('the document', () => {
  it('allows its own script and style, and nothing else', async () => {
    const { url } = await serve();
    const response = await fetch(`${url}/`);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = response.headers.get('content-security-policy')!;
    expect(policy).toMatch(/^default-src 'none'; /);
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    const html = await response.text();
    for (const [kind, pattern] of [
      ['script', /<script[^>]*>([\s\S]*?)<\/script>/g],
      ['style', /<style>([\s\S]*?)<\/style>/g],
    ] as const) {
      const parts = [...html.matchAll(pattern)].map(([, text]) => text);
      expect(parts).toHaveLength(1);
      const hash = createHash('sha256').update(parts[0]).digest('base64');
      expect(policy).toContain(`${kind}-src 'sha256-${hash}'`);
    }
    // The page names nothing elsewhere, and has neither styles nor handlers in its elements.
    expect(html.replace(/<script[\s\S]*<\/script>|<style>[\s\S]*<\/style>/g, '')).not.toMatch(
      /https?:|\/\/|\sstyle=|\son\w+=/,
    );
  });

  it('is there without a key; what it asks for is not', async () => {
    const { url } = await serve({ serve: { apiKeys: ['secret'] } });
    const document = await (await fetch(`${url}/`)).text();
    expect(document).not.toContain('test-model');
    for (const path of ['/figures', '/blocks', '/blocks/1', '/requests', '/requests/x'])
      expect([path, (await fetch(url + path)).status]).toEqual([path, 401]);
    const headers = { authorization: 'Bearer secret' };
    for (const path of ['/figures', '/blocks', '/blocks/1', '/requests'])
      expect([path, (await fetch(url + path, { headers })).status]).toEqual([path, 200]);
  });

  it('works below a prefix: what names no folder is sent to one, and open routes are open', async () => {
    const { url } = await serve({ serve: { apiKeys: ['secret'], prefix: '/llm' } as object });
    const location = await new Promise((resolve) =>
      get(`${url}/llm`, ({ headers }) => resolve(headers.location)).on('error', resolve),
    );
    expect(location).toBe('llm/');
    expect((await fetch(`${url}/llm`)).url).toBe(`${url}/llm/`);
    const statuses = ['/llm/', '/llm/health', '/llm/ping', '/llm/figures', '/llm/v1/models'].map(
      async (path) => [path, (await fetch(url + path)).status],
    );
    expect(await Promise.all(statuses)).toEqual([
      ['/llm/', 200],
      ['/llm/health', 200],
      ['/llm/ping', 200],
      ['/llm/figures', 401],
      ['/llm/v1/models', 401],
    ]);
  });

  it('can be left out, with all that it asks for', async () => {
    const { url } = await serve({ serve: { page: false } });
    for (const path of ['/', '/figures', '/blocks', '/blocks/1'])
      expect([path, (await fetch(url + path)).status]).toEqual([path, 404]);
    await expect(serve({ serve: { page: 1 as never } })).rejects.toThrow('page must be a boolean, got 1');
  });

  it('shows figures and the map alone where nobody may act', async () => {
    const { url, json } = await watch({ serve: { control: false } });
    expect((await json<Figures>('/figures')).control).toBe(false);
    expect((await fetch(`${url}/blocks`)).status).toBe(200);
    for (const path of ['/blocks/1', '/requests', '/requests/x'])
      expect([path, (await fetch(url + path)).status]).toEqual([path, 404]);
  });
});

describe('the figures', () => {
  it('are those of the engine', async () => {
    const { json, post, engine } = await watch({ engine: { maxNumSeqs: 2 }, latencyMs: 2 });
    const first = await json<Figures>('/figures');
    expect(first).toMatchObject({
      ...SERVED,
      model: 'test-model',
      version: expect.any(String),
      numBlocks: 2049,
      blockSize: 16,
    });
    expect(first).toMatchObject({ paused: 'none', health: HEALTHY, step: { p50: null, p99: null } });
    const abort = new AbortController();
    const asked = [1, 2, 3].map(() =>
      post('/v1/completions', LONG, { signal: abort.signal }).catch(() => null),
    );
    await until(
      () => engine.numRunning === 2 && engine.stats().scheduler.generationTokens > 10,
      'a few steps',
    );
    let figures = first;
    while (figures.step.p50 === null) {
      await pause(20);
      figures = await json<Figures>(`/figures?after=${first.samples[0].time}`);
    }
    const [last] = figures.samples.slice(-1);
    expect(last).toMatchObject({ running: 2, waiting: 1, loading: 0 });
    expect(last.generated).toBeGreaterThan(10);
    expect(last.queries).toBeGreaterThan(0);
    expect(last.usage).toBeGreaterThan(0);
    expect(figures.step.p99).toBeGreaterThanOrEqual(figures.step.p50!);
    expect(figures.present).toMatchObject({ quarantinedBlocks: 0 });
    expect(figures.present?.anomalies).toEqual({});
    expect(figures.present!.steps).toBeGreaterThan(5);
    // A client that asks for samples after the last one has received all others.
    expect(figures.samples.every(({ time }) => time > first.samples[0].time)).toBe(true);
    abort.abort();
    await Promise.all(asked);
    await until(() => isEmpty(engine), 'an empty engine');
    await post('/pause?mode=keep', '');
    expect((await json<Figures>('/figures')).paused).toBe('all');
    await post('/resume', '');
  });

  it('go on, and say why, when the engine is gone', async () => {
    const { json, engine, url } = await watch({ serve: { endsEngine: false } });
    await json<Figures>('/figures');
    const clock = setClock(performance.now());
    engine.dispose();
    clock.ms += 1000;
    const figures = await json<Figures>('/figures');
    expect(figures.present).toBe(null);
    expect(figures.health).toMatchObject({ healthy: false, reasons: ['the engine was disposed'] });
    expect((await fetch(`${url}/blocks`)).status).toBe(503);
  });

  it('refuse a time that is none', async () => {
    const { url } = await serve();
    for (const after of ['x', '-1', '1.5', '1e3', '', '9'.repeat(16), '1&after=2'])
      expect([after, (await fetch(`${url}/figures?after=${after}`)).status]).toEqual([after, 400]);
  });

  it('are sampled once for all who ask within half a second', () => {
    const engine = bare();
    const clock = setClock(1000);
    const sampler = new Sampler(engine, SERVED, () => HEALTHY);
    onTestFinished(() => sampler.close());
    const stats = vi.spyOn(engine, 'stats');
    const times = [0, 1, 100, 449, 450, 899, 900].map((ms) => {
      clock.ms = 1000 + ms;
      sampler.read(0);
      return stats.mock.calls.length;
    });
    expect(times).toEqual([1, 1, 1, 1, 2, 2, 3]);
  });

  it('keep five minutes, and no more', () => {
    const engine = bare();
    const clock = setClock(0);
    vi.spyOn(Date, 'now').mockImplementation(() => 1_000_000 + clock.ms);
    const sampler = new Sampler(engine, SERVED, () => HEALTHY);
    onTestFinished(() => sampler.close());
    const numKept = (step: number, reads: number): number => {
      for (let i = 0; i < reads; i++) {
        clock.ms += step;
        sampler.read(0);
      }
      return sampler.read(0).samples.length;
    };
    expect(numKept(500, 1000)).toBe(600);
    expect(numKept(10_000, 100)).toBe(31);
    // The clock of the machine is set back: samples stay in their order.
    vi.spyOn(Date, 'now').mockImplementation(() => 5);
    expect(numKept(500, 3)).toBe(33);
    const order = sampler.read(0).samples.map(({ time }) => time);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(new Set(order).size).toBe(order.length);
  });

  it('cost nothing while nobody asks', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const sampler = new Sampler(bare(), SERVED, () => HEALTHY);
    expect([sampler.isWatching, channels.engineStep.hasSubscribers, vi.getTimerCount()]).toEqual([
      false,
      false,
      0,
    ]);
    for (let i = 0; i < 5; i++) {
      sampler.read(0);
      vi.advanceTimersByTime(10_000);
      expect([sampler.isWatching, channels.engineStep.hasSubscribers]).toEqual([true, true]);
    }
    vi.advanceTimersByTime(5001);
    expect([sampler.isWatching, channels.engineStep.hasSubscribers, vi.getTimerCount()]).toEqual([
      false,
      false,
      0,
    ]);
    sampler.read(0);
    expect(sampler.isWatching).toBe(true);
    sampler.close();
    expect([sampler.isWatching, channels.engineStep.hasSubscribers, vi.getTimerCount()]).toEqual([
      false,
      false,
      0,
    ]);
  });

  it('end with the server', async () => {
    const { json, app } = await watch();
    await json<Figures>('/figures');
    expect(channels.engineStep.hasSubscribers).toBe(true);
    await app.close();
    expect(channels.engineStep.hasSubscribers).toBe(false);
  });
});

describe('the watch of steps', () => {
  const publish = (engine: number, latencyMs: number): void =>
    channels.engineStep.publish({
      engine,
      step: 0,
      numRequests: 1,
      totalTokens: 1,
      latencyMs,
      failed: false,
    });

  it('has the percentiles of its own engine’s steps since a time', () => {
    const clock = setClock(0);
    const steps = new StepWatch(7);
    publish(7, 1);
    steps.start();
    onTestFinished(() => steps.stop());
    expect(steps.percentiles(0)).toEqual({ p50: null, p99: null });
    for (let i = 1; i <= 100; i++) {
      clock.ms = i;
      publish(7, 200 - i);
      publish(8, 1e6);
    }
    expect(steps.percentiles(0)).toEqual({ p50: 149, p99: 198 });
    expect(steps.percentiles(51)).toEqual({ p50: 124, p99: 149 });
    expect(steps.percentiles(101)).toEqual({ p50: null, p99: null });
    // Only the last ones are kept.
    for (let i = 0; i < 4096; i++) publish(7, 5);
    expect(steps.percentiles(0)).toEqual({ p50: 5, p99: 5 });
    steps.stop();
    publish(7, 1e6);
    expect(steps.percentiles(0)).toEqual({ p50: 5, p99: 5 });
  });

  it('says how late the event loop was, also before it has come round', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const clock = setClock(0);
    const steps = new StepWatch(7);
    steps.start();
    onTestFinished(() => steps.stop());
    const tick = (ms: number): void => {
      clock.ms += ms;
      vi.advanceTimersByTime(20);
    };
    for (const ms of [20, 95, 21]) tick(ms);
    expect(steps.drainLoopDelay()).toBe(75);
    tick(20);
    expect(steps.drainLoopDelay()).toBe(0);
    clock.ms += 300;
    expect(steps.drainLoopDelay()).toBe(280);
  });
});

describe('the map', () => {
  it('has a byte for each block, which sum up, and is not sent again unchanged', async () => {
    const { url, post, engine, states, json } = await watch({ latencyMs: 1 });
    const response = await fetch(`${url}/blocks`);
    expect(response.headers.get('content-type')).toBe('application/octet-stream');
    const etag = response.headers.get('etag')!;
    const empty = new Uint8Array(await response.arrayBuffer());
    expect(empty).toEqual(new Uint8Array(2049).fill(BlockState.free).fill(BlockState.reserved, 0, 1));
    const again = await fetch(`${url}/blocks`, { headers: { 'if-none-match': etag } });
    expect([again.status, (await again.arrayBuffer()).byteLength]).toEqual([304, 0]);
    const abort = new AbortController();
    const asked = post('/v1/completions', LONG, { signal: abort.signal }).catch(() => null);
    await until(() => engine.numRunning === 1, 'a running request');
    await post('/pause?mode=keep', '');
    await until(() => engine.stats().stepsInFlight === 0, 'the end of the step');
    let seen: Uint8Array = empty;
    while (Buffer.compare(seen, engine.scheduler.inspect().blockStates()) !== 0) {
      await pause(20);
      seen = await states();
    }
    expect(seen).toEqual(engine.scheduler.inspect().blockStates());
    const counts = [0, 0, 0, 0, 0, 0];
    for (const state of seen) counts[state]++;
    const { freeBlocks } = engine.stats().scheduler;
    expect(counts).toEqual([freeBlocks, 0, 2048 - freeBlocks, 0, 0, 1]);
    // Its blocks are the blocks that it reports, and each block reports it.
    const { requests } = await json<RequestList>('/requests');
    const facts = await json<RequestFacts>(`/requests/${requests[0].id}`);
    expect([...seen.keys()].filter((block) => seen[block] === BlockState.used)).toEqual(
      [...facts.blocks].sort((a, b) => a - b),
    );
    expect(await json<BlockFacts>(`/blocks/${facts.blocks[1]}`)).toEqual({
      block: facts.blocks[1],
      holders: [requests[0].id],
      numHolders: 1,
    });
    await post('/resume', '');
    abort.abort();
    await asked;
    await until(() => isEmpty(engine), 'an empty engine');
    expect(await json<BlockFacts>(`/blocks/${facts.blocks[1]}`)).toMatchObject({
      holders: [],
      numHolders: 0,
    });
  });

  it('is made once for all who ask within a second, and more seldom where it costs more', () => {
    const engine = bare();
    const clock = setClock(0);
    const snapshots = new BlockSnapshots(engine);
    let costMs = 0;
    const read = Inspection.prototype.blockStates;
    const made = vi.spyOn(Inspection.prototype, 'blockStates').mockImplementation(function (
      this: Inspection,
    ) {
      clock.ms += costMs;
      return read.call(this);
    });
    const numMade = (ms: number): number => {
      clock.ms += ms;
      snapshots.read();
      return made.mock.calls.length;
    };
    expect([numMade(0), numMade(0), numMade(899), numMade(1)]).toEqual([1, 1, 1, 2]);
    costMs = 50;
    // The map takes 50 ms, so for 5 s there is no other.
    expect([numMade(900), numMade(900), numMade(4099), numMade(1)]).toEqual([3, 3, 3, 4]);
  });

  it('has another version when a state has changed, and only then', () => {
    const engine = bare();
    const clock = setClock(0);
    const snapshots = new BlockSnapshots(engine);
    const version = (): string => {
      clock.ms += 10_000;
      return snapshots.read().version;
    };
    const empty = version();
    expect(version()).toBe(empty);
    engine.submit({ prompt: [1, 2, 3], maxTokens: 5 });
    engine.step();
    const used = version();
    expect(used).not.toBe(empty);
    expect(version()).toBe(used);
  });

  it('knows which blocks there are', async () => {
    const { url } = await serve();
    for (const block of ['2049', '-1', 'x', '1.5', '1e1', '99999999999', '%00', ''])
      expect([block, (await fetch(`${url}/blocks/${block}`)).status]).toEqual([block, 404]);
    expect((await fetch(`${url}/blocks/2048`)).status).toBe(200);
  });
});

describe('the requests', () => {
  it('are listed by a part of their ids, without explanations, and so many as are wanted', async () => {
    const { url, json, post, engine } = await watch({ engine: { maxNumSeqs: 2 }, latencyMs: 2 });
    const abort = new AbortController();
    const asked = Array.from({ length: 5 }, () =>
      post('/v1/completions', LONG, { signal: abort.signal }).catch(() => null),
    );
    await until(() => engine.numRunning === 2 && engine.stats().streams === 5, 'five requests');
    const all = await json<RequestList>('/requests');
    expect(all.total).toBe(5);
    expect(all.requests.map(({ state }) => state).sort()).toEqual([
      ...['admission', 'admission', 'admission'],
      ...['running', 'running'],
    ]);
    const one = all.requests[3];
    expect(await json<RequestList>(`/requests?match=${one.id.slice(6, 30)}`)).toMatchObject({
      requests: [{ id: one.id, explain: expect.stringContaining('waiting') }],
      total: 1,
    });
    const few = await json<RequestList>('/requests?limit=2&explain=false');
    expect([few.total, few.requests.map(({ id }) => id)]).toEqual([
      5,
      all.requests.slice(0, 2).map(({ id }) => id),
    ]);
    expect(Object.keys(few.requests[0])).toEqual(['id', 'state', 'output_tokens']);
    expect((await json<RequestList>('/requests?match=zzz')).requests).toEqual([]);
    for (const query of [
      'limit=0',
      'limit=501',
      'limit=x',
      'limit=1&limit=2',
      'explain=1',
      'match=a&match=b',
      'filter=a',
    ])
      expect([query, (await fetch(`${url}/requests?${query}`)).status]).toEqual([query, 400]);
    abort.abort();
    await Promise.all(asked);
  });

  it('are found by their ids, whatever those have, also if they came from elsewhere', async () => {
    const { url, json, engine } = await watch({ latencyMs: 1 });
    const id = `a/b?c#<b>"x"</b>%20 ${'é'.repeat(60)}`;
    const stream = engine.submit({ id, prompt: [1, 2, 3, 4], maxTokens: 400 });
    await until(() => stream.numOutputTokens > 20, 'a few tokens');
    const facts = await json<RequestFacts>(`/requests/${encodeURIComponent(id)}`);
    expect(facts).toMatchObject({ id, state: 'running', prompt_tokens: 4, max_tokens: 400, preemptions: 0 });
    expect(facts.explain).toContain('running');
    expect(facts.blocks.length).toBeGreaterThan(1);
    // An ended request is known as long as a transfer uses its blocks.
    engine.hold(stream.handle, 'lease', 'peer');
    const { handle } = stream;
    stream.abort();
    await until(() => stream.ended && engine.numRunning === 0, 'the end of the request');
    const left = await json<RequestFacts>(`/requests/${encodeURIComponent(id)}`);
    expect(left).toMatchObject({ id, state: 'finished' });
    expect(left.blocks.slice(0, facts.blocks.length)).toEqual(facts.blocks);
    expect(left.explain).toContain('lease:peer');
    engine.complete(handle, 'lease', 'peer');
    await until(() => isEmpty(engine), 'an empty engine');
    const response = await fetch(`${url}/requests/${encodeURIComponent(id)}`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: 'not_found' } });
  });
});
