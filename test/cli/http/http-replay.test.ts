// Requests and their times are those of the workload, with the allowed number at once; aborts,
// tokens, the page, an interrupt.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { HttpClient } from '../../../src/cli/replay/http/client/http-client.js';
import { readServerUrl } from '../../../src/cli/replay/http/client/server-url.js';
import type { HttpReport } from '../../../src/cli/replay/http/report/http-report.js';
import { CallPlaces } from '../../../src/cli/replay/http/run/call-places.js';
import { HttpReplay } from '../../../src/cli/replay/http/run/http-replay.js';
import { generateWorkload } from '../../../src/workload/generate.js';
import { readTrace } from '../../../src/workload/trace.js';
import { useTempFiles, useTempFolders } from '../../support/temp-file.js';
import { pause, until } from '../../support/waiting.js';
import { run, start } from '../run-program.js';
import { type Asked, answer, beginStream, chunk, fakeServer, trace, usage } from './fake-server.js';
import { replayAt } from './replay-at.js';

const write = useTempFiles();
const folder = useTempFolders(write);

describe('what a replay over HTTP sends', () => {
  it('is the workload: its prompts as token ids, its lengths, streamed, with usage', async () => {
    const { asked, path, report, code } = await replayAt({}, trace(5));
    expect(code).toBe(0);
    const { workload } = await readTrace(path);
    expect(asked).toHaveLength(5);
    for (const { body, headers, index } of asked) {
      expect({ ...body, prompt: null }).toEqual({
        model: 'fake-model',
        max_tokens: 4,
        stream: true,
        stream_options: { include_usage: true },
        ignore_eos: true,
        prompt: null,
      });
      expect(headers.authorization).toBeUndefined();
      // Requests that arrive together may overtake each other on their connections.
      const same = (i: number) => Array.from(workload.prompt(i), (token) => 1000 + (token % 31_000));
      expect([0, 1, 2, 3, 4].map(same)).toContainEqual(body.prompt);
      expect(body.prompt.slice(0, 512)).toEqual(asked[0].body.prompt.slice(0, 512));
      if (index > 0) expect(body.prompt.slice(512)).not.toEqual(asked[0].body.prompt.slice(512));
    }
    expect(report).toMatchObject({
      incomplete: false,
      server: { model: 'fake-model' },
      requests: {
        total: 5,
        finished: 5,
        byFinishReason: { length: 5 },
        failed: 0,
        refused: 0,
        unfinished: 0,
      },
      tokens: { prompt: 3000, generated: 20, generatedAsChunks: 0 },
      prefixCache: { queries: 3000, hits: 80 },
    });
    expect(report.ttftMs.count).toBe(5);
    expect(report.itlMs.count).toBe(15);
    expect(report.tpotMs.count).toBe(5);
    expect(report.client.lateMs.count).toBe(5);
    expect(report.throughput.generatedTokens).toBeCloseTo(20 / report.wallSeconds);
  });

  it('keeps prompts in a smaller vocabulary, and leaves out what it is told to', async () => {
    const { asked } = await replayAt({}, trace(2), '--vocabulary-size', '1500', '--no-ignore-eos');
    for (const { body } of asked) {
      expect(body).not.toHaveProperty('ignore_eos');
      expect(Math.min(...body.prompt)).toBeGreaterThanOrEqual(1000);
      expect(Math.max(...body.prompt)).toBeLessThan(1500);
    }
  });

  it('asks for the model and shows the key that it was given', async () => {
    const { asked, report } = await replayAt({}, trace(1), '--model', 'another', '--api-key', 'secret');
    expect(asked[0].body['model']).toBe('another');
    expect(asked[0].headers.authorization).toBe('Bearer secret');
    expect(report.server.model).toBe('another');
  });

  it('shows no key where the variable of the environment is empty', async () => {
    process.env['BLOCKSTEP_API_KEY'] = '';
    onTestFinished(() => {
      delete process.env['BLOCKSTEP_API_KEY'];
    });
    const { asked, code } = await replayAt({}, trace(1));
    expect(code).toBe(0);
    expect(asked[0].headers.authorization).toBeUndefined();
  });

  it('goes out when the trace says, and not before', async () => {
    const { asked, seen } = await replayAt({}, trace(6, 160), '--speed-up', '4');
    for (const [i, { atMs }] of asked.entries()) expect(atMs - seen.modelsMs).toBeGreaterThanOrEqual(40 * i);
  });

  it('keeps to the limit of requests under way, and says how long the others waited', async () => {
    const { seen, report } = await replayAt({}, trace(12), '--concurrency', '2');
    expect(seen.mostOpen).toBe(2);
    expect(report.requests.finished).toBe(12);
    expect(report.client.heldMs?.count).toBe(12);
    let came = 0;
    const complete = async (asked: Asked, response: Parameters<typeof answer>[1]): Promise<void> => {
      came++;
      await until(() => came >= 3, 'three requests at once');
      await answer(asked, response);
    };
    const free = await replayAt({ complete }, trace(12));
    expect(free.seen.mostOpen).toBeGreaterThan(2);
    expect(free.report.client.heldMs).toBeUndefined();
  });

  it('waits for a place from its arrival on, and is not late by that', async () => {
    const complete = async (asked: Asked, response: Parameters<typeof answer>[1]): Promise<void> => {
      await pause(40);
      await answer(asked, response);
    };
    const { report } = await replayAt({ complete }, trace(6), '--concurrency', '1');
    // The last one waits for all five others.
    const { heldMs } = report.client;
    expect(heldMs!.max).toBeGreaterThanOrEqual(5 * 40 - 5);
    const places = new CallPlaces(2);
    expect([await places.acquire(), await places.acquire()]).toEqual([0, 0]);
    const third = places.acquire();
    places.release(7);
    places.release(9);
    expect([await third, await places.acquire()]).toEqual([7, 9]);
  });

  it('goes out again if a kept connection was closed just then', async () => {
    let resets = 0;
    const complete = async (asked: Asked, response: Parameters<typeof answer>[1]): Promise<void> => {
      const socket = response.socket as NonNullable<typeof response.socket> & { isUsed?: boolean };
      if (socket.isUsed) {
        resets++;
        socket.resetAndDestroy();
        return;
      }
      socket.isUsed = true;
      await answer(asked, response);
    };
    const { report, code } = await replayAt({ complete }, trace(4), '--concurrency', '1');
    expect([code, report.requests.finished]).toEqual([0, 4]);
    expect(resets).toBeGreaterThan(0);
  });
});

describe('aborts of a replay over HTTP', () => {
  it('cut the connection, and count apart', async () => {
    const complete = (_: Asked, response: Parameters<typeof answer>[1]): void => {
      beginStream(response);
      response.write(chunk(' x'));
    };
    const { report, seen, code } = await replayAt({ complete }, trace(5, 0, 40), '--abort-rate', '1');
    expect([code, report.requests.aborted, report.requests.failed]).toEqual([0, 5, 0]);
    await until(() => seen.open === 0, 'the ends of the connections');
    expect(report.tokens.generated).toBeLessThanOrEqual(5);
  });

  it('hit the requests that the replay in virtual time aborts', async () => {
    const args = ['--abort-rate', '0.5', '--seed', '9'];
    const { report, path } = await replayAt({}, trace(40), ...args);
    const { stdout } = await run(['replay', path, '--json', ...args]);
    const virtual = JSON.parse(stdout) as { requests: { aborted: number; abortsTooLate: number } };
    const planned = ({ aborted, abortsTooLate }: { aborted: number; abortsTooLate: number }) =>
      aborted + abortsTooLate;
    expect(planned(virtual.requests)).toBeGreaterThan(10);
    expect(planned(report.requests)).toBe(planned(virtual.requests));
    expect(report.requests.finished + report.requests.aborted).toBe(40);
  });
});

describe('what a replay over HTTP reads', () => {
  it('may come in any pieces, with any ends of lines', async () => {
    const complete = async (asked: Asked, response: Parameters<typeof answer>[1]): Promise<void> => {
      beginStream(response);
      response.socket!.setNoDelay(true);
      const events = [': a comment\n\n', chunk(' ü€'), 'event: x\nid: 4\n', chunk('𝄞'), chunk('.', 'stop')];
      const bytes = Buffer.from(`${events.join('')}${usage(asked)}data: [DONE]\n\n`.replaceAll('\n', '\r\n'));
      for (let at = 0; at < bytes.length; at += 3) {
        response.write(bytes.subarray(at, at + 3));
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
      response.end();
    };
    const { report, code } = await replayAt({ complete }, trace(2));
    expect(code).toBe(0);
    expect(report).toMatchObject({
      requests: { finished: 2, byFinishReason: { stop: 2 } },
      tokens: { generated: 8, generatedAsChunks: 0 },
    });
    expect(report.itlMs.count).toBe(4);
  });

  it('counts chunks where the server tells no usage, and says so', async () => {
    const complete = (_: Asked, response: Parameters<typeof answer>[1]): void => {
      beginStream(response);
      response.end(`${chunk(' a')}${chunk(' b')}${chunk(' c', 'length')}data: [DONE]\n\n`);
    };
    const { report, url, path } = await replayAt({ complete }, trace(2));
    expect(report.tokens).toEqual({ prompt: 1200, generated: 6, generatedAsChunks: 6 });
    expect(report).not.toHaveProperty('prefixCache');
    const { stdout } = await run(['replay', path, '--url', url]);
    expect(stdout.replace(/ *│\n│ *│/g, '')).toContain('chunks counted as tokens: the server did not say');
    expect(stdout).toContain('prefix cache hits');
  });

  it('has what the server counted itself, where it counts', async () => {
    const metrics = (preemptions: number, hits: number, usage: number): string =>
      [
        '# TYPE vllm:num_preemptions counter',
        `vllm:num_preemptions_total{engine="0",model_name="a } b"} ${preemptions}`,
        `vllm:num_preemptions_total{engine="1",model_name="a } b"} 1.0`,
        `vllm:num_preemptions_created{engine="0"} 1.7e9`,
        `vllm:prefix_cache_queries_total{engine="0"} ${4 * hits}`,
        `vllm:prefix_cache_hits_total{engine="0"} ${hits}`,
        `vllm:kv_cache_usage_perc{engine="0"} ${usage}`,
        '',
      ].join('\n');
    const { report } = await replayAt({ metrics: [metrics(3, 100, 0.25), metrics(8, 250, 0.5)] }, trace(1));
    expect(report.server.metrics).toEqual({
      preemptions: 5,
      prefixCache: { queries: 600, hits: 150 },
      kvCacheUsage: { before: 0.25, after: 0.5 },
    });
    // A server that was restarted has counted from the beginning.
    const fresh = await replayAt({ metrics: [metrics(3, 100, 0.25), metrics(1, 250, 0.5)] }, trace(1));
    expect(fresh.report.server).not.toHaveProperty('metrics');
    const none = await replayAt({ metrics: ['up 1\n'] }, trace(1));
    expect(none.report.server).not.toHaveProperty('metrics');
  });
});

describe('the page of a replay over HTTP', () => {
  it('holds what is printed, and no secret', async () => {
    const server = await fakeServer();
    const path = join(folder(), 'page.html');
    const address = server.url.replace('//', '//user:pass%20word@');
    const args = ['replay', write('page.jsonl', trace(9, 5)), '--json', '--url', `${address}/v1/`];
    const { code, stdout, stderr } = await run([...args, '--report', path]);
    expect([code, stderr]).toEqual([0, `written to ${path}\n`]);
    const basic = `Basic ${Buffer.from('user:pass word').toString('base64')}`;
    expect(server.asked[0].headers.authorization).toBe(basic);
    const page = readFileSync(path, 'utf8');
    const [, json] = /<script type="application\/json" id="report">(.*?)<\/script>/.exec(page) ?? [];
    expect((JSON.parse(json) as { report: HttpReport }).report).toEqual(JSON.parse(stdout));
    expect(page).toContain(`at <bdi>${server.url}</bdi>`);
    expect(page).toContain('<bdi>fake-model</bdi>');
    expect(page).toContain('All times are real');
    expect(page.replace(/<(script|style)[^>]*>.*?<\/\1>/gs, '')).not.toContain('virtual');
    for (const text of [page, stdout, stderr]) expect(text).not.toMatch(/pass(%20| )word/);
    for (const id of [
      'throughput',
      'ttft-over-time',
      'itl-over-time',
      'open',
      'late',
      'hit-rate',
      'itl',
      'lateness',
    ])
      expect(page).toContain(`id="${id}"`);
  });

  it('hides a key, however it was given', async () => {
    const { url } = await fakeServer();
    for (const key of [['--api-key', 'sk-12345'], ['--api-key=sk-12345']]) {
      const path = join(folder(), 'page.html');
      const file = write('key.jsonl', trace(1));
      const { code, stdout, stderr } = await run(['replay', file, '--url', url, '--report', path, ...key]);
      expect(code).toBe(0);
      for (const text of [stdout, stderr, readFileSync(path, 'utf8')]) expect(text).not.toContain('sk-12345');
    }
  });
});

describe('an interrupt', () => {
  it('ends a replay over HTTP with what there was until then', async () => {
    const complete = (asked: Asked, response: Parameters<typeof answer>[1]): unknown => {
      if (asked.index < 2) return answer(asked, response);
      beginStream(response);
      return response.write(chunk(' x'));
    };
    const server = await fakeServer({ complete });
    const interrupt = new AbortController();
    const file = write('interrupt.jsonl', trace(6));
    const command = start(
      ['replay', file, '--json', '--concurrency', '3', '--url', server.url],
      interrupt.signal,
    );
    await until(() => server.asked.length === 5 || command.said.code !== null, 'requests that never end');
    interrupt.abort();
    expect(await command.ended).toBe(130);
    const report = JSON.parse(command.said.stdout) as HttpReport;
    expect(report).toMatchObject({
      incomplete: true,
      requests: { total: 6, finished: 2, unfinished: 4, failed: 0 },
    });
    await until(() => server.seen.open === 0, 'the ends of the connections');
  });

  it('ends it also while it waits for an arrival', async () => {
    const server = await fakeServer();
    const interrupt = new AbortController();
    const file = write('waiting.jsonl', trace(2, 3_600_000));
    const command = start(['replay', file, '--url', server.url], interrupt.signal);
    await until(() => server.asked.length === 1 || command.said.code !== null, 'the first request');
    interrupt.abort();
    expect(await command.ended).toBe(130);
    expect(command.said.stdout).toMatch(/^INCOMPLETE: interrupted\./);
  });

  it('cuts what is under way before the client is closed, and nothing more is counted', async () => {
    const server = await fakeServer({ complete: (_, response) => beginStream(response) });
    const client = new HttpClient(readServerUrl(server.url, undefined));
    onTestFinished(() => client.close());
    const replay = new HttpReplay(generateWorkload({ requests: 3, requestRate: 1000, seed: 1 }), client, {
      model: 'm',
      ignoreEos: true,
      vocabularySize: 32_000,
      speedUp: 1,
      abortRate: 0,
      seed: 1,
      concurrency: null,
      timeoutMs: 3_600_000,
    });
    const interrupt = new AbortController();
    const complete = replay.run(interrupt.signal);
    await until(() => server.asked.length === 3, 'requests that never end');
    interrupt.abort();
    expect(await complete).toBe(false);
    await until(() => server.seen.open === 0, 'the ends of the connections');
    expect(replay.measurements).toMatchObject({ numEnded: 0, aborted: 0, failed: {} });
  });
});
