// `blockstep plan`: tables, JSON, the page, the state, wrong input, an interrupt.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Plan } from '../../src/planner/plan.js';
import { run, start } from '../cli/run-program.js';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';
import { until } from '../support/waiting.js';
import { PRIOR, requests } from './truth.js';

const folders = useTempFolders(useTempFiles());
const SLO = ['--slo', 'ttft:p95<3s,tpot:p95<400ms'];
const SWEEP = ['--sweep', 'max-num-seqs=4|32,max-num-batched-tokens=512|1k'];
const FEW = ['--threads', '1', '--finalists', '1', '--num-blocks', '3000'];

describe('blockstep plan', () => {
  let folder: string;
  let trace: string;
  let plain: string[];
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  beforeEach(() => {
    folder = folders();
    const workload = requests(40, 6);
    const rows = Array.from({ length: 40 }, (_, i) => {
      return `${workload.arrivalMs[i] / 1000},${workload.inputTokens[i]},${workload.outputTokens[i]}`;
    });
    trace = write('<trace>.csv', ['Timestamp,Request tokens,Response tokens', ...rows].join('\n'));
    const profile = write('p.json', JSON.stringify({ ...PRIOR, name: 'A <b>model</b>' }));
    plain = ['plan', trace, '--profile', profile, ...SLO, ...SWEEP, ...FEW];
  });

  it('says what the best options are, how to start vLLM with them, and how far to trust that', async () => {
    const { code, stdout, stderr } = await run([...plain, '--max-engines', '4', '--model', "it's mine"]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/points: 4 of 4\npoints at 2 times the load: 0 of 2\n[\s\S]*loads: 0 of 1\n/),
    ]);
    expect(stdout).toMatch(/WARNING: The best options rest on extrapolation: all of their steps lie/);
    expect(stdout).toMatch(/<trace>.csv: 4 points at .* requests\/s, under ttft:p95<3000ms,tpot:p95<400ms/);
    expect(stdout).toMatch(/max-num-seqs \d+, max-num-batched-tokens \d+ .* requests\/s/);
    expect(stdout).toMatch(/The trace needs \d engines?\. Over time: \d/);
    expect(stdout).toMatch(/not known: nothing was measured/);
    expect(stdout).toMatch(
      / {2}vllm serve 'it'\\''s mine' --max-num-seqs \d+ --max-num-batched-tokens \d+ --block-size 16 --no-async-scheduling\n$/,
    );
  });

  it('says how to start vLLM with drafts, and that their acceptance is assumed', async () => {
    const sweep = ['--sweep', 'num-speculative-tokens=3,policy=priority,enable-prefix-caching=off'];
    const { code, stdout } = await run([...plain, ...sweep, '--acceptance-rate', '0.5']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/each is accepted with probability 0.5, which is assumed/);
    expect(stdout).toMatch(
      /--no-enable-prefix-caching --scheduling-policy priority --speculative-config '{"method":"ngram","num_speculative_tokens":3}' --no-async-scheduling\n$/,
    );
  });

  it('goes on where it was interrupted', async () => {
    const state = join(folder, 'plan.state');
    const stopped = new AbortController();
    const first = start([...plain, '--state', state, '--json'], stopped.signal);
    await until(() => first.said.stderr.includes('points: 1 of 4') || first.said.code !== null, 'a point');
    stopped.abort();
    expect(await first.ended).toBe(130);
    expect(first.said.stderr).toMatch(/interrupted: .*plan.state has what was done/);
    const kept = readFileSync(state, 'utf8').trim().split('\n').length - 1;
    expect(kept).toBeGreaterThan(0);
    // A line that a crash has cut.
    writeFileSync(state, `${readFileSync(state, 'utf8')}{"key": "x`);
    const second = await run([...plain, '--state', state, '--json']);
    expect(second.code).toBe(0);
    const plan = JSON.parse(second.stdout) as Plan;
    expect(plan).toEqual(JSON.parse((await run([...plain, '--json'])).stdout));
    const runs = readFileSync(state, 'utf8').match(/"key":"/g)!.length;
    expect(runs).toBeGreaterThan(4);
    const third = await run([...plain, '--state', state, '--json']);
    expect(third.stdout).toBe(second.stdout);
    expect(readFileSync(state, 'utf8').match(/"key":"/g)).toHaveLength(runs);
  });

  it('writes a page in which everything of others is escaped', async () => {
    const page = join(folder, 'page.html');
    const { code } = await run([
      ...plain,
      '--report',
      page,
      '--max-engines',
      '2',
      '--model',
      '</script><i>x',
    ]);
    expect(code).toBe(0);
    const text = readFileSync(page, 'utf8');
    for (const id of ['pareto', 'load-0', 'knob-max-num-seqs', 'knob-max-num-batched-tokens', 'fleet'])
      expect(text).toContain(`id="${id}"`);
    expect(text).toContain('How far to trust this');
    expect(text).toContain('Capacity for &lt;trace&gt;.csv');
    expect(text).toContain('A &lt;b&gt;model&lt;/b&gt;');
    expect(text).not.toContain('<b>model');
    expect(text).not.toContain('</script><i>');
  });

  it('refuses bad input before anything runs', async () => {
    const page = join(folder, 'page.html');
    const bad = (...words: string[]): string[] => [...plain, '--report', page, ...words];
    const untimed = write('u.csv', 'Timestamp,Request tokens,Response tokens\n0,5,5\n0,6,6\n');
    const cases: [string[], RegExp][] = [
      [bad('--slo', 'ttft<1s'), /slo must be conditions such as ttft:p95<1s/],
      [bad('--sweep', 'speed=1..9'), /sweep must be knobs such as/],
      [bad('--sweep', 'max-num-seqs=1..30000+1'), /at most 20000 points/],
      [bad('--sweep', 'max-num-seqs=0|4'), /at max-num-seqs=0: /],
      [bad('--sweep', 'policy=lottery'), /policy \(fcfs\|priority\)/],
      [bad('--search', 'luck'), /Allowed choices are grid, halving/],
      [bad('--acceptance-rate', '2'), /Expected a number from 0 to 1/],
      [bad('--max-num-seqs', '5'), /--max-num-seqs cannot be used with --sweep/],
      [bad('--profile', trace), /cannot be read/],
      [bad('--state', trace), /is no state of a plan/],
      [['plan', untimed, ...bad().slice(2)], /requests that arrive over time/],
      [['plan', join(folder, 'none'), ...bad().slice(2)], /cannot be read: ENOENT/],
    ];
    for (const [args, says] of cases) {
      const { code, stdout, stderr } = await run(args);
      expect([code === 1 ? 'a failure' : 'refused', stdout, stderr]).toEqual([
        'refused',
        '',
        expect.stringMatching(says),
      ]);
      expect(existsSync(page)).toBe(false);
    }
  });
});
