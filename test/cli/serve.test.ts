// `blockstep serve`: its executors, output, ports, keys, wrong options.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { GPUS } from '../../src/planner/model/gpus.js';
import { rooflineProfile } from '../../src/planner/model/profile.js';
import { Follower } from '../kv-events/follower.js';
import { LLAMA_8B } from '../planner/models.js';
import { temporaryFolder } from '../support/temp-file.js';
import { until } from '../support/waiting.js';
import { run } from './run-program.js';
import { serveProgram as serve } from './serve-program.js';

const EXAMPLE = fileURLToPath(new URL('../../examples/served-executor.mjs', import.meta.url));

const MAIN = scriptArguments(import.meta.url, '../../src/cli/main');

describe.skipIf(process.platform === 'win32')('the process of blockstep serve', () => {
  it.each([
    ['SIGSEGV', 'memory that is not there'],
    ['SIGBUS', 'memory that is not there any more'],
    ['SIGABRT', 'a library, or Node'],
  ] as const)('says that %s ends it, and ends by that', async (signal, words) => {
    const child = spawn(process.execPath, [...MAIN, 'serve', '--port', '0']);
    const said = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const)
      child[stream].on('data', (bytes) => {
        said[stream] += bytes;
      });
    const ended = once(child, 'close');
    await until(() => said.stdout.includes('Try:') || child.exitCode !== null, 'an address');
    child.kill(signal);
    expect(await ended).toEqual([null, signal]);
    expect(said.stderr).toMatch(new RegExp(`^blockstep ends: ${signal}: ${words}.*\n$`, 'm'));
  });
});

describe('blockstep serve', () => {
  it('serves the reference executor, and says plainly what it is and what to try', async () => {
    const { said, complete, url, interrupt, ended } = await serve('--latency-ms', '0');
    expect(said.stdout).toMatch(
      /^"blockstep-reference" is served at http:\/\/127\.0\.0\.1:\d+\nThe reference executor is no language model: .*\n\nPage: (http:\/\/127\.0\.0\.1:\d+)\/\nTry: {2}curl -N .*\n$/,
    );
    const [, page] = /^Page: (.*)$/m.exec(said.stdout)!;
    expect(await (await fetch(page)).text()).toContain('<title>blockstep</title>');
    // The request that the program suggests works.
    const [, asked] = /-d '(.*)'/.exec(said.stdout)!;
    const body = JSON.parse(asked) as object;
    const { choices } = await complete({ ...body, stream: false });
    expect(choices[0]).toMatchObject({
      text: ' brown fox jumps over the lazy dog. The quick',
      finish_reason: 'stop',
    });
    interrupt.abort();
    expect(await ended).toBe(0);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  });

  it('logs requests to stderr, as JSON, and takes bodies as large as it is told', async () => {
    const { said, complete, url } = await serve('--latency-ms', '0', '--max-body-bytes', '200');
    await complete({ prompt: 'one two one', max_tokens: 2 });
    const lines = () =>
      [...said.stderr.matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line) as Record<string, unknown>);
    const requests = () => lines().filter(({ msg }) => msg === 'request');
    await until(() => requests().length > 0, 'a line of the log');
    expect(requests()[0]).toMatchObject({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      request_id: expect.any(String),
      path: '/v1/completions',
      output_tokens: 2,
    });
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ prompt: 'x'.repeat(200) });
    const { status } = await fetch(`${url}/v1/completions`, { method: 'POST', headers, body });
    expect(status).toBe(413);
    await until(() => requests().length > 1, 'another line of the log');
    const quiet = await serve('--latency-ms', '0', '--log-level', 'error');
    await quiet.complete({ prompt: 'one two one', max_tokens: 2 });
    expect(quiet.said.stderr).toBe('');
  });

  it('takes parameters of sampling that change nothing, and says so once and in each answer', async () => {
    const { said, url, complete } = await serve();
    expect(said.stdout).toMatch(/change nothing; x-blockstep-ignored in an answer names them\.$/m);
    const asked = { prompt: 'a rose is a rose is', max_tokens: 4 };
    const plain = await complete(asked);
    for (const stream of [false, true]) {
      const body = { ...asked, temperature: 0.7, top_p: 1, seed: 5, presence_penalty: 0, stream };
      const response = await fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      expect([response.status, response.headers.get('x-blockstep-ignored')]).toEqual([
        200,
        'temperature, seed',
      ]);
      if (!stream) expect(((await response.json()) as typeof plain).choices).toEqual(plain.choices);
      else await response.text();
    }
  });

  it('serves a stand-in for GPUs, which takes the time that its cost model says', async () => {
    const figures = ['--step-overhead-ms', '5', '--weight-bytes', '0'];
    const { said, complete } = await serve(
      '--executor',
      'simulated',
      '--profile',
      'qwen2.5-7b-l4',
      ...figures,
    );
    expect(said.stdout).toMatch(
      /^"qwen2.5-7b-l4" is served.*\nA stand-in for Qwen2.5 7B on one L4: .* Temperature and other parameters of sampling change nothing; .*\.$/m,
    );
    const start = performance.now();
    const { choices } = await complete({ prompt: 'x', max_tokens: 20, ignore_eos: true, temperature: 1 });
    // Nineteen steps behind the first one take 5 ms each; a timer may end one millisecond early, a busy machine takes longer.
    expect(performance.now() - start).toBeGreaterThan(19 * 4);
    expect(choices[0].text).toMatch(/^( [a-z]+){10,}/);
  });

  it('serves a stand-in for what a profile in a file says, with the blocks that it has room for', async () => {
    const profile = rooflineProfile(LLAMA_8B, 'Llama-3.1-8B', GPUS['h100']);
    const path = join(temporaryFolder(), 'profile.json');
    writeFileSync(path, JSON.stringify({ ...profile, kvTokens: 16 * 321 }));
    const { said, url } = await serve('--executor', 'simulated', '--profile', path, '--block-size', '16');
    expect(said.stdout).toMatch(/A stand-in for Llama-3.1-8B on NVIDIA H100 SXM: /);
    expect(said.stdout).toMatch(/EXTRAPOLATED: nothing in this profile was measured/);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/num_gpu_blocks="321"/);
  });

  it('ends the texts of a stand-in at random lengths with the mean that it was given', async () => {
    const fast = ['--step-overhead-ms', '0', '--weight-bytes', '0', '--kv-bytes-per-token', '0'];
    const { complete } = await serve('--executor', 'simulated', '--mean-output-tokens', '10', ...fast);
    const ends: string[] = [];
    let words = 0;
    for (let i = 0; i < 40; i++) {
      const { choices } = await complete({ prompt: 'x', max_tokens: 60 });
      ends.push(choices[0].finish_reason);
      words += choices[0].text.split(' ').length;
    }
    expect(ends.filter((end) => end === 'stop').length).toBeGreaterThan(30);
    expect(words / 40).toBeGreaterThan(4);
    expect(words / 40).toBeLessThan(25);
  });

  it('serves an executor of the user’s own', async () => {
    const { said, complete } = await serve('--executor', EXAMPLE, '--served-model-name', 'mine');
    expect(said.stdout).toMatch(/^"mine" is served at/);
    const { model, choices } = await complete({ prompt: 'Say this again.', max_tokens: 50 });
    expect({ model, ...choices[0] }).toMatchObject({
      model: 'mine',
      text: 'Say this again.',
      finish_reason: 'stop',
    });
  });

  it('publishes KV cache events, if that is wanted', async () => {
    const config = {
      enable_kv_cache_events: true,
      endpoint: 'tcp://127.0.0.1:*',
      replay_endpoint: 'tcp://127.0.0.1:*',
    };
    const { said, complete } = await serve('--latency-ms', '0', '--kv-events-config', JSON.stringify(config));
    const [, events, replay] = /^KV cache events: (tcp:.*), replays at (tcp:.*)$/m.exec(said.stdout)!;
    const follower = new Follower(events, replay);
    onTestFinished(() => follower.close());
    await complete({ prompt: Array.from({ length: 40 }, (_, i) => i), max_tokens: 2 });
    await follower.reach(0);
    expect(follower.hashes.get('GPU')?.size).toBe(2);
  });

  it('has no page, and speaks of none, if it is to have none', async () => {
    const { said, url } = await serve('--no-page', '--latency-ms', '0');
    expect(said.stdout).not.toContain('Page:');
    for (const path of ['/', '/figures', '/blocks']) expect((await fetch(url + path)).status).toBe(404);
  });

  it('takes the next port if one is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const { url } = await serve('--port', `${port}`, '--latency-ms', '0');
    expect(Number(new URL(url).port)).toBeGreaterThan(port);
    other.close();
  });

  it('asks for keys, which it takes from the environment too', async () => {
    process.env['BLOCKSTEP_API_KEY'] = 'secret';
    onTestFinished(() => {
      delete process.env['BLOCKSTEP_API_KEY'];
    });
    const { url, said } = await serve();
    expect(said.stdout).toContain('-H "Authorization: Bearer KEY"');
    expect(said.stdout).not.toContain('secret');
    expect((await fetch(`${url}/v1/models`)).status).toBe(401);
    const headers = { authorization: 'Bearer secret' };
    expect((await fetch(`${url}/v1/models`, { headers })).status).toBe(200);
  });

  it.each<[string[], RegExp]>([
    [['--port', '70000'], /--port.*Expected an integer from 0 to 65535/],
    [['--executor', 'simulated', '--profile', 'gpt-9'], /--profile must be llama-3.1-8b-h100, .*got "gpt-9"/],
    [['--mean-output-tokens', '5'], /--mean-output-tokens can only be used with --executor simulated/],
    [
      ['--executor', 'simulated', '--latency-ms', '5'],
      /--latency-ms can only be used with --executor reference/,
    ],
    [
      ['--executor', './nothing.mjs'],
      /ERR_BLOCKSTEP_BAD_FILE: the executor \.\/nothing\.mjs cannot be loaded/,
    ],
    [['--num-blocks', '0'], /ERR_BLOCKSTEP_BAD_ARG: numBlocks/],
    [['--kv-events-config', '{'], /--kv-events-config.*Expected JSON/],
    [['--kv-events-config', '{"endpoints": 1}'], /There is no "endpoints" in it/],
    [['--kv-events-config', '{"endpoint": "x"}'], /ERR_BLOCKSTEP_BAD_ARG: endpoint must be an address/],
    [['--modle', 'x'], /unknown option '--modle'/],
  ])('refuses %j before anything starts', async (args, message) => {
    const { code, stderr, stdout } = await run(['serve', ...args]);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(stdout).toBe('');
  });

  it('refuses a module that gives no executor', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'bad.mjs');
    for (const [text, message] of [
      ['export const a = 1;', 'must have a default export that is a function, got undefined'],
      ['export default () => 5;', 'must give { executor }, an object with an executor, got 5'],
      ['throw new Error("no GPU");', 'cannot be loaded: Error: no GPU'],
    ]) {
      const file = path.replace('bad', `bad${text.length}`);
      writeFileSync(file, text);
      const { code, stderr } = await run(['serve', '--executor', file]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    }
  });
});
