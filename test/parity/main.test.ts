// The command `npm run parity`: passes, fails, skips, random traces.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { thinned } from '../support/share.js';
import { readFixture } from './fixtures.js';
import { LACKS } from './scheduler-under-test.js';
import type { Trace, Update } from './trace.js';

const main = scriptArguments(import.meta.url, 'main');

function parity(...args: string[]): { code: number | null; out: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...main, ...args], {
    encoding: 'utf8',
  });
  return { code: status, out: stdout + stderr };
}

describe('npm run parity', () => {
  let folder: string;
  const file = (name: string) => join(folder, name);
  const write = (name: string, trace: Trace) => writeFileSync(file(name), JSON.stringify(trace));

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'parity-'));
    mkdirSync(file('all/below'), { recursive: true });
    mkdirSync(file('empty'));
    const trace = readFixture('t42_async_spec_eagle');
    write('all/below/good.json', trace);
    (trace.steps[20].upd as Update).fq += 1;
    write('bad.json', trace);
    trace.config.max_num_scheduled_tokens = 5;
    write('all/unsupported.json', trace);
    writeFileSync(file('broken.json'), '{');
    write('groups.json', readFixture('h07_admission_at_the_edge'));
    write('fault.json', readFixture('x03_sliding_only_load_failures_cut'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('passes a good trace, plain or with state unread, and says what it compared', () => {
    const { code, out } = parity(file('all/below/good.json'));
    expect(out).toMatch(/^t42_async_spec_eagle: 90 steps, \d{4} comparisons, 0 differences$/m);
    expect(out).toMatch(
      /^total: 1 traces, 90 steps, \d{4} comparisons, 0 differences, 0 traces unsupported$/m,
    );
    expect(code).toBe(0);
    expect(parity('--plans-only', file('all/below/good.json')).code).toBe(0);
  });

  it('fails on a difference and shows its scene', () => {
    const { code, out } = parity(file('bad.json'));
    expect(code).toBe(1);
    expect(out).toContain('first at steps[20].upd.fq');
    expect(out).toMatch(/expected \d+\n {4}got {6}\d+\n {4}step 19 .*\n {4}step 20 .*\n {4}events/);
    expect(out).toContain('got upd');
  });

  it('fails on a trace that it cannot replay, unless told to skip it', () => {
    const { code, out } = parity(file('all'));
    expect(out).toContain('t42_async_spec_eagle: unsupported: max_num_scheduled_tokens');
    expect(out).toContain('0 differences, 1 traces unsupported');
    expect(code).toBe(1);
    expect(parity('--skip-unsupported', file('all')).code).toBe(0);
    expect(parity('--skip-unsupported', file('all/unsupported.json')).code).toBe(1);
  });

  it('replays traces with KV cache groups on the reference, and leaves them out where the scheduler lacks groups', () => {
    const [plain, groups] = [file('all/below/good.json'), file('groups.json')];
    const { code, out } = parity('--reference', plain, groups);
    expect(out).toMatch(/^total: 2 traces, .* 0 differences, 0 traces unsupported$/m);
    expect(code).toBe(0);
    if (!LACKS.includes('kv_groups')) return;
    const real = parity(plain, groups);
    expect(real.out).toContain('h07_admission_at_the_edge: unsupported: kv_groups');
    expect(real.out).toMatch(/^total: 1 traces, .* 0 traces unsupported, 1 left out$/m);
    expect([real.code, parity(groups).code]).toEqual([0, 1]);
  });

  it('gives the reference faults of vLLM', () => {
    const { code, out } = parity('--reference', file('fault.json'));
    expect([code, out.includes('first at steps[')]).toEqual([1, true]);
    expect(parity('--reference', '--faults', 'G1,G9', file('fault.json')).code).toBe(0);
  });

  it('replays random traces', () => {
    const { code, out } = parity('--random', '2', '--seed', '5');
    expect(out).toMatch(/generated 5: .*\ngenerated 6: .*\ntotal: 2 traces/);
    expect(code).toBe(0);
  });

  it('replays random traces under the rules of August', () => {
    const { code, out } = parity('--random', '2', '--rules', 'august');
    expect(out).toMatch(/generated 1: .*\ngenerated 2: .*\ntotal: 2 traces, .* 0 differences/);
    const steps = (text: string) => /total: .*/.exec(text)?.[0];
    expect(steps(out)).not.toBe(steps(parity('--random', '2').out));
    expect(code).toBe(0);
  });

  it('replays random traces with KV cache groups on the reference', () => {
    const { code, out } = parity('--reference', '--groups', '--faults', 'G2', '--random', '2');
    expect(out).toMatch(/generated 1: .*\ngenerated 2: .*\ntotal: 2 traces/);
    expect(code).toBe(0);
  });

  it.each(
    thinned(
      [
        [[]],
        [['--novelty', '.']],
        [['/no/such/path']],
        [['--random', 'x']],
        [['--random', '1', '--seed', '-1']],
        [['--random', '1', '--faults', 'G1']],
        [['--random', '1', '--groups', '--deep']],
        [['--random', '1', '--rules', 'june']],
        [['--rules', 'august', 'test/parity/fixtures']],
        [['--random', '1', '--reference', '--faults', 'G4']],
        [['--random', '1', '--reference', '--authority', 'device']],
      ],
      2,
    ),
  )('refuses %j', (args) => {
    const { code, out } = parity(...args);
    expect(code).toBe(2);
    expect(out).toContain('npm run parity -- [options] PATH...');
  });

  it('refuses a folder without traces and names a file that is no JSON', () => {
    expect(parity(file('empty')).code).toBe(2);
    const { code, out } = parity(file('broken.json'));
    expect(code).toBe(1);
    expect(out).toContain('broken.json');
  });
});
