// Schedulers side by side: workloads, and misbehaving peers.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { Peer } from '../../bench/peers/peer.js';
import { WORKLOADS } from '../../bench/peers/workloads.js';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { share, thinned } from '../support/share.js';
import { useTempFiles } from '../support/temp-file.js';

const BARE = fileURLToPath(new URL('../../bench/peers/bare.mjs', import.meta.url));
const OURS = scriptArguments(import.meta.url, '../../bench/peers/ours');
const PATIENT_MS = 60_000;
const write = useTempFiles();

const started: Peer[] = [];
afterEach(() => {
  for (const peer of started.splice(0)) peer.kill();
});

function start(command: string, timeoutMs = PATIENT_MS): Peer {
  const peer = new Peer(command, timeoutMs);
  started.push(peer);
  return peer;
}

const node = (...args: string[]): string => [process.execPath, ...args].map((arg) => `'${arg}'`).join(' ');

let edited = 0;

/** The bare loop, with some of its text changed. */
function changed(from: string, to: string): string {
  const text = readFileSync(BARE, 'utf8');
  expect(text).toContain(from);
  return node(write(`peer-${edited++}.mjs`, text.replace(from, to)));
}

/** A program that answers every message with one line. */
const answering = (line: string): string =>
  node('-e', `process.stdin.on("data", () => console.log(${JSON.stringify(line)}))`);

async function play(command: string, name: string, turns = 2): Promise<void> {
  const peer = start(command);
  await peer.hello();
  const workload = WORKLOADS[name](peer, turns);
  await workload.prepare();
  for (let i = 0; i < turns; i++) {
    const { us, wallUs } = await workload.turn();
    expect(wallUs).toBeGreaterThan(0);
    for (const each of us ?? []) expect(each).toBeGreaterThanOrEqual(0);
  }
  await workload.finish();
  await peer.close();
}

describe('every workload is carried out', () => {
  it.each(share(['mixed-256'], Object.keys(WORKLOADS)))('by the bare loop: %s', (name) =>
    play(node(BARE), name),
  );
  it.each(Object.keys(WORKLOADS))('by blockstep: %s', (name) => play(node(...OURS), name));
});

describe('a peer that misbehaves is told so in a sentence, if it', () => {
  it.each([
    ['answers no JSON', answering('ready!'), 'it answered hello with what is no JSON: ready!'],
    ['answers no object', answering('[1]'), 'it answered hello with what is no object: [1]'],
    ['has no name', answering('{}'), 'it answered hello without a "name": undefined'],
    ['refuses', answering('{"error":"not today"}'), 'it says to hello: not today'],
    ['is no program', 'no-such-program-at-all', 'it ended by exit code 127 instead of answering hello: '],
    [
      'dies',
      node('-e', 'throw new Error("out of luck")'),
      'it ended by exit code 1 instead of answering hello: Error: out of luck',
    ],
    ['is killed', 'kill -9 $$', 'it ended by the signal SIGKILL instead of answering hello'],
  ])('%s', async (_, command, message) => {
    await expect(start(command).hello()).rejects.toThrow(message);
  });

  it('is silent', async () => {
    const peer = start('sleep 1000', 200);
    await expect(peer.hello()).rejects.toThrow('it has not answered hello for 0.2 s');
  });

  const mistakes = [
    [
      'leaves a request out',
      'decode-64',
      'requests++;',
      'requests += request.id === 3 ? 0 : 1;',
      'a step of 64 decodes has 63 requests',
    ],
    [
      'computes too much',
      'decode-1',
      'request.computed += tokens;',
      'request.computed += tokens; left -= 1;',
      'a step of 1 decodes has 2 tokens',
    ],
    [
      'ends a decode',
      'decode-1',
      'outputs++;',
      'outputs++; ended.push(request.id);',
      'request 0 ended before its last token',
    ],
    ['never decodes', 'decode-1', 'outputs++;', '', 'after 5000 steps 0 of 1 requests decode'],
    [
      'runs too many',
      'mixed-256',
      'running.length < limits.maxRunning && ',
      '',
      'requests, at most 256 may run',
    ],
    [
      'exceeds the budget',
      'mixed-256',
      'let left = limits.maxTokensPerStep',
      'let left = limits.maxTokensPerStep = 9000',
      'a step computes 9000 tokens, the budget is 8192',
    ],
    [
      'samples too much',
      'mixed-256',
      'outputs++;',
      'outputs += 2;',
      'a step samples 12 tokens for 7 requests',
    ],
    [
      'runs few',
      'mixed-256',
      'limits.maxRunning &&',
      '16 &&',
      'the mixed workload has 16 requests in a step, expected 256',
    ],
    [
      'ends one twice',
      'mixed-256',
      'ended.push(request.id);',
      'ended.push(request.id, request.id);',
      'ended, which had ended',
    ],
    [
      'ends one that never was',
      'mixed-256',
      'ended.push(request.id);',
      'ended.push(999999);',
      'request 999999 ended, which never was',
    ],
    [
      'forgets an end',
      'mixed-256',
      'ended.push(request.id);',
      'if (request.id % 512 !== 5) ended.push(request.id);',
      'requests have not ended after 5000 steps',
    ],
    [
      'gives a token too few',
      'mixed-256',
      'limit: prompt.length + maxTokens',
      'limit: prompt.length + maxTokens - 1',
      'tokens were sampled, the requests wanted',
    ],
    ['skips tokens', 'mixed-256', 'computed: 0', 'computed: 1', 'tokens were computed, the requests have'],
    [
      'computes half',
      'one-2048',
      'computed: 0',
      'computed: 1024',
      'computes 1024 tokens, samples 1 and ends [0], expected 2048, 1 and [0]',
    ],
    [
      'says too few steps',
      'one-2048',
      'answer.tokens.push(tokens);',
      '',
      '"tokens" has 0 numbers for 1 steps',
    ],
    [
      'says no list',
      'one-2048',
      'answer.outputs.push(outputs)',
      'answer.outputs = "one"',
      '"outputs" must be a list of whole numbers, got "one"',
    ],
    [
      'says a time that is none',
      'one-2048',
      'answer.us.push(',
      'answer.us.push(-1 -',
      '"us" must have 1 times, got [-',
    ],
    [
      'says more time than went by',
      'one-2048',
      'answer.us.push(',
      'answer.us.push(1e9 +',
      'it says that it took 10000',
    ],
  ] as const;
  it.each(thinned(mistakes, 1))('%s', async (_, workload, from, to, message) => {
    await expect(play(changed(from, to), workload)).rejects.toThrow(message);
  });
});

describe('npm run bench:peers', () => {
  const main = scriptArguments(import.meta.url, '../../bench/peers/main');
  const bench = (...args: string[]) => spawnSync(process.execPath, [...main, ...args], { encoding: 'utf8' });

  it('measures all, leaves out who misbehaves, and says why', () => {
    const untimed = changed('answer.us.push((performance.now() - start) * 1000);', 'delete answer.us;');
    const named = write(
      'named.mjs',
      readFileSync(untimed.split("'")[3], 'utf8').replace("'bare loop'", "'no clock'"),
    );
    const peers = ['--peer', node(named), '--peer', answering('hm')];
    const { status, stdout, stderr } = bench('--quick', '--only', 'decode-1', ...peers);
    expect(stderr).toBe(`peer "${peers[3]}", hello: it answered hello with what is no JSON: hm\n`);
    expect(status).toBe(1);
    for (const name of ['bare loop', 'blockstep'])
      expect(stdout).toMatch(new RegExp(`│ ${name} +│ +[\\d.]+ │ +[\\d.]+ │`));
    expect(stdout).toMatch(/│ no clock +│ +~[\d.]+ │ +~[\d.]+ │ +~[\d.]+ │ +[\d.]+ │/);
    expect(stdout).toMatch(/the pipe costs the bare loop [\d.]+ µs a step/);
  });

  it.each([
    [['--only', 'x'], '--only must be one of decode-1, decode-64, decode-256, mixed-256, one-2048, got x'],
    [['--timeout', '0'], '--timeout must be a number of seconds above 0 and up to 3600, got 0'],
    [['x'], 'Unexpected argument'],
  ])('refuses %j', (args, message) => {
    const { status, stdout, stderr } = bench(...args);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });

  it('shows each message of the protocol on its page', () => {
    const page = readFileSync(join(BARE, '..', 'README.md'), 'utf8');
    for (const op of ['hello', 'open', 'add', 'step', 'close']) expect(page).toContain(`{"op": "${op}"`);
  });
});
