// `blockstep serve` in a separate process: driven, with a key, killed in the middle.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import type { HttpReport } from '../../../src/cli/replay/http/report/http-report.js';
import type { Report } from '../../../src/cli/replay/report/report.js';
import { isQuick } from '../../support/share.js';
import { useTempFiles } from '../../support/temp-file.js';
import { pause, until } from '../../support/waiting.js';
import { run, start } from '../run-program.js';
import { beginStream, fakeServer, trace } from './fake-server.js';

const write = useTempFiles();
const MAIN = scriptArguments(import.meta.url, '../../../src/cli/main');
const SIMULATED = ['--executor', 'simulated', '--weight-bytes', '0', '--kv-bytes-per-token', '0'];

/** `blockstep serve` in a process of its own, which ends with the test at the latest. */
async function serve(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(process.execPath, [...MAIN, 'serve', '--port', '0', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  const ended = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let said = '';
  child.stdout!.on('data', (bytes) => {
    said += bytes;
  });
  await until(() => said.includes('Try:') || child.exitCode !== null, 'an address');
  return { child, url: /http:\/\/\S+/.exec(said)?.[0] ?? said };
}

it.skipIf(isQuick)('a server of ours gets the workload, and counts what the client counts', async () => {
  const { url } = await serve({}, ...SIMULATED, '--step-overhead-ms', '0');
  const workload = ['--requests', '40', '--request-rate', '200', '--abort-rate', '0.2'];
  const { code, stdout, stderr } = await run(['replay', '--json', '--url', url, ...workload]);
  expect([code, stderr]).toEqual([0, '']);
  const report = JSON.parse(stdout) as HttpReport;
  const virtual = JSON.parse((await run(['replay', '--json', ...workload])).stdout) as Report;
  const { finished, aborted, abortsTooLate, failed, refused } = report.requests;
  expect([finished + aborted, failed, refused]).toEqual([40, 0, 0]);
  expect(aborted + abortsTooLate).toBe(virtual.requests.aborted + virtual.requests.abortsTooLate);
  expect(report.requests.byFinishReason).toEqual({ length: finished });
  expect(report.workload).toEqual(virtual.workload);
  expect(report.server).toMatchObject({ url, model: 'llama-3.1-8b-h100' });
  // Prompts begin alike as they do in virtual time.
  expect(report.prefixCache!.hits).toBeGreaterThan(0);
  const { preemptions, prefixCache, kvCacheUsage, generatedTokens } = report.server.metrics!;
  expect([preemptions, kvCacheUsage?.before]).toEqual([0, 0]);
  expect(prefixCache!.hits).toBeGreaterThanOrEqual(report.prefixCache!.hits);
  // Tokens in transit to a client that left were generated too.
  expect(generatedTokens).toBeGreaterThanOrEqual(report.tokens.generated - report.tokens.generatedAsChunks);
  expect(report.ttftMs.count).toBeGreaterThanOrEqual(finished);
  expect(report.e2eMs.count).toBe(finished);
});

it('a server of ours that wants a key gets the one of the environment', async () => {
  const { url } = await serve({ BLOCKSTEP_API_KEY: 'secret' }, '--latency-ms', '0');
  const file = write('key.jsonl', trace(3));
  expect((await run(['replay', file, '--url', url])).code).toBe(1);
  process.env['BLOCKSTEP_API_KEY'] = 'secret';
  onTestFinished(() => {
    delete process.env['BLOCKSTEP_API_KEY'];
  });
  const { code, stdout } = await run(['replay', file, '--json', '--url', url]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    requests: { finished: 3 },
    tokens: { prompt: 1800, generated: 12 },
  });
});

it('a server that is killed in the middle ends the replay, with a report of what there was', async () => {
  // Steps of 5 ms: the texts of 1,000 tokens cannot be whole before the server is gone.
  const { url, child } = await serve({}, ...SIMULATED, '--step-overhead-ms', '5');
  const short = trace(3, 0, 2);
  const long = trace(60, 20, 1000).replaceAll(
    /"timestamp":(\d+)/g,
    (_, ms) => `"timestamp":${Number(ms) + 1}`,
  );
  const file = write('killed.jsonl', short + long);
  const never = new AbortController().signal;
  const command = start(['replay', file, '--json', '--concurrency', '10', '--url', url], never);
  const count = async (name: string): Promise<number> => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(new RegExp(`^vllm:${name}.* (\\d+)$`, 'm').exec(text)?.[1]);
  };
  const isUnderWay = async (): Promise<boolean> =>
    (await count('request_success_total{.*"length"')) === 3 && (await count('num_requests_running')) >= 5;
  while (!(await isUnderWay()) && command.said.code === null) await pause();
  child.kill('SIGKILL');
  expect(await command.ended).toBe(1);
  expect(command.said.stderr).toMatch(/^ERR_BLOCKSTEP_SERVER: the replay ended early: the server is gone: /);
  const report = JSON.parse(command.said.stdout) as HttpReport;
  expect(report.incomplete).toBe(true);
  expect(report.requests.finished).toBe(3);
  expect(report.requests.failedByKind['unreachable']).toBeGreaterThanOrEqual(3);
  expect(report.requests.failedByKind['broken off']).toBeGreaterThan(0);
  expect(report.requests.unfinished).toBeGreaterThan(0);
});

it('an interrupt ends the process at once, though requests are under way', async () => {
  const { url, asked } = await fakeServer({ complete: (_, response) => beginStream(response) });
  const file = write('interrupted.jsonl', trace(3));
  const child = spawn(process.execPath, [...MAIN, 'replay', file, '--json', '--url', url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  child.stdout!.on('data', (bytes) => {
    stdout += bytes;
  });
  const ended = once(child, 'close') as Promise<[number | null]>;
  await until(() => asked.length === 3 || child.exitCode !== null, 'requests that never end');
  child.kill('SIGINT');
  // Were a request's time limit of an hour still running, the process would wait for it.
  expect((await ended)[0]).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({ incomplete: true, requests: { unfinished: 3 } });
});
