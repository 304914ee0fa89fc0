import { describe, expect, it } from 'vitest';
import { GPUS } from '../../src/planner/model/gpus.js';
import { type Profile, rooflineProfile } from '../../src/planner/model/profile.js';
import { replay, run } from '../cli/run-program.js';
import { useTempFiles } from '../support/temp-file.js';
import { LLAMA_8B } from './models.js';

const write = useTempFiles();
const ROOFLINE = rooflineProfile(LLAMA_8B, 'Llama-3.1-8B', GPUS['h100']);
const WORK = ['--requests', '20', '--num-blocks', '4000', '--max-num-seqs', '8'];

function file(profile: Profile): string {
  return write('p.json', JSON.stringify(profile));
}

describe('replay --profile', () => {
  it('takes the times of the profile, and says that nobody has measured them', async () => {
    const report = await replay(...WORK, '--profile', file(ROOFLINE));
    expect(report.options['model']).toBe(ROOFLINE.name);
    expect(report.extrapolated).toBe(1);
    const { stdout } = await run(['replay', ...WORK, '--profile', file(ROOFLINE)]);
    expect(stdout).toMatch(/EXTRAPOLATED: every step lies outside of what the profile/);
    const a100 = await replay(...WORK, '--profile', file(rooflineProfile(LLAMA_8B, 'm', GPUS['a100'])));
    expect(a100.e2eMs.p50!).toBeGreaterThan(1.3 * report.e2eMs.p50!);
  });

  it('counts the steps outside of what was measured', async () => {
    const most = 1e9;
    const wide = {
      tokens: [1, most],
      rows: [1, most],
      prefillTokens: [0, most],
      prefillPairs: [0, most],
      decodeContextTokens: [0, most],
      largestDecodeContext: [0, most],
      drafts: [0, 0],
    } as const;
    const extrapolated = async (seen: Profile['seen']) =>
      (await replay(...WORK, '--profile', file({ ...ROOFLINE, seen }))).extrapolated;
    expect(await extrapolated(wide)).toBe(0);
    const some = await extrapolated({ ...wide, rows: [1, 4] });
    expect(some).toBeGreaterThan(0);
    expect(some).toBeLessThan(1);
    const { stdout } = await run(['replay', ...WORK, '--profile', file({ ...ROOFLINE, seen: wide })]);
    expect(stdout).not.toMatch(/EXTRAPOLATED/);
  });

  it('takes built-in ones by name', async () => {
    const { options, extrapolated } = await replay(...WORK, '--profile', 'qwen2.5-7b-l4');
    expect([options['model'], extrapolated]).toEqual(['qwen2.5-7b-l4', null]);
    expect((await replay(...WORK)).extrapolated).toBeNull();
  });

  const REFUSED: [string, () => string[], RegExp][] = [
    [
      'a name that is nothing',
      () => ['--profile', 'h100'],
      /--profile must be .*or the path of a profile, got "h100"/,
    ],
    [
      'figures beside it',
      () => ['--profile', file(ROOFLINE), '--weight-bytes', '1'],
      /--weight-bytes cannot be used with --profile/,
    ],
    ['a file that is none', () => ['--profile', write('p.json', '{}')], /p.json: is no profile: .*schema/],
    ['a file that is no JSON', () => ['--profile', write('p.json', '{')], /p.json: cannot be read/],
  ];
  it.each(REFUSED)('refuses %s', async (_, flags, says) => {
    const { code, stderr } = await run(['replay', ...WORK, ...flags()]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(says)]);
  });
});

describe('serve --executor simulated --profile', () => {
  it('refuses figures beside a file, and names that are nothing', async () => {
    const serve = ['serve', '--port', '0', '--executor', 'simulated', '--profile'];
    const figures = await run([...serve, file(ROOFLINE), '--weight-bytes', '1']);
    expect(figures.stderr).toMatch(/--weight-bytes goes with a built-in --profile only/);
    expect((await run([...serve, 'nothing'])).stderr).toMatch(/--profile must be/);
  });
});
