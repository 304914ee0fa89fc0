// The two calls of a run fit their time, with the most telling checks first; the arguments of tools
// and programs.
import { describe, expect, it } from 'vitest';
import { newestGlibc } from '../../bench/gpu/bundle/glibc.js';
import { configuration } from '../../bench/gpu/checks/native-build.js';
import { sanitizerArguments } from '../../bench/gpu/checks/sanitizers.js';
import { MOST_WORKERS } from '../../bench/gpu/checks/suites.js';
import { gpuOfReason } from '../../bench/gpu/host/host.js';
import { readRunOptions } from '../../bench/gpu/options.js';
import type { GpuRecord } from '../../bench/gpu/record/record.js';
import { type Planned, planChecks } from '../../bench/gpu/run.js';

/** The checks that a call with these parts would run on a real GPU. Nothing of it is run. */
function plan(only: string, ...more: string[]): Planned[] {
  const record = { results: { host: { gpu: { computeCapability: '9.0' } } } } as unknown as GpuRecord;
  return planChecks({
    options: readRunOptions(['--only', only, ...more]),
    record,
    emulatedAddon: null,
    programs: null,
  });
}
const sum = (plan: Planned[]): number => plan.reduce((seconds, { expected }) => seconds + expected, 0);
const names = (plan: Planned[]): string[] => plan.map(({ name }) => name);

describe('the plan of a run on a GPU host', () => {
  it.each(['a,c', 'd,b'])('fits into one call of nine minutes with a fifth to spare: %s', (only) => {
    expect(sum(plan(only))).toBeLessThan(0.8 * 9 * 60);
  });

  it('does not let one check take what those behind it need', () => {
    for (const { name, expected, limit } of [...plan('a,c'), ...plan('d,b')]) {
      expect(limit, name).toBeGreaterThanOrEqual(1.4 * expected);
      expect(limit, name).toBeLessThanOrEqual(220);
    }
    const figures = plan('d').filter(({ name }) => name.startsWith('figures'));
    expect(figures.reduce((seconds, { limit }) => seconds + limit, 0)).toBeLessThan(300);
  });

  it('has everything in its two calls that one call without --only has, and nothing twice', () => {
    const both = [...names(plan('a,c')), ...names(plan('d,b'))];
    expect(new Set(both)).toEqual(new Set(names(plan('a,b,c,d'))));
    expect(new Set(names(plan('a,c'))).size).toBe(plan('a,c').length);
  });

  it('has the short form of everything before the long one', () => {
    const all = names(plan('a,c'));
    const first = [
      'the package can use CUDA',
      'native test programs',
      'the self-test, a hundred times',
      'CUDA against host, 5000 steps, authority host',
      'CUDA against host, 5000 steps, authority device',
      'compute-sanitizer memcheck, CUDA against host, 50 steps',
      'compute-sanitizer racecheck, CUDA against host, 50 steps',
      'tables of a step, read by a captured graph',
      'a worker with copies under way is terminated',
      'a capture of another thread',
      'a GPU that somebody else holds',
    ];
    expect(all.slice(0, first.length)).toEqual(first);
    expect(all[first.length]).toContain('100000 steps');
    // The first checks must end in the first quarter of the time, the build aside.
    const quarter = plan('a,c').slice(2, first.length);
    expect(sum(quarter)).toBeLessThan(135);
  });

  it('compares once, and no more steps than were asked for, where these are few', () => {
    expect(names(plan('a', '--steps', '200')).filter((name) => name.includes('200 steps'))).toEqual([
      'CUDA against host, 200 steps, authority host',
      'CUDA against host, 200 steps, authority device',
    ]);
    expect(names(plan('a', '--steps', '200')).join()).not.toContain('5000 steps');
  });

  it('gives the figures an empty machine: they come before the suites', () => {
    const all = names(plan('d,b'));
    const suites = all.findIndex((name) => name.startsWith('suite'));
    expect(all.indexOf('figures')).toBeLessThan(suites);
    expect(MOST_WORKERS).toBe(3);
  });
});

describe('the native programs', () => {
  it('are built for the GPU that is there alone, and a warning ends nothing', () => {
    const args = configuration('90', '/some/folder');
    expect(args).toContain('-DCMAKE_CUDA_ARCHITECTURES=90');
    expect(args).toContain('-DBLOCKSTEP_WERROR=OFF');
    expect(configuration(null, '/some/folder')).toContain('-DBLOCKSTEP_EMULATED=ON');
  });
});

describe('a sanitizer', () => {
  it('gets a program whose self-test asks no question of a kernel that runs', () => {
    for (const tool of ['memcheck', 'racecheck'] as const) {
      const args = sanitizerArguments(tool, '/some/program', 50);
      const program = args.indexOf('/some/program');
      expect(args.slice(program + 1)).toEqual(['--steps', '50', '--trust-mapped', '1']);
      expect(args.slice(0, program)).toContain(tool);
      // "not ready" is no error, and no other tool has the option.
      expect(args.includes('--report-api-errors')).toBe(tool === 'memcheck');
    }
  });
});

describe('what the addon says of a GPU', () => {
  it('is taken apart, whatever stands behind the compute capability', () => {
    const gpu = { driver: null, memoryMiB: null };
    expect(gpuOfReason('NVIDIA H100, PCIe, compute capability 9.0, round trip 1.9 us')).toEqual({
      ...gpu,
      name: 'NVIDIA H100, PCIe',
      computeCapability: '9.0',
    });
    expect(gpuOfReason('something else')).toEqual({ ...gpu, name: 'something else', computeCapability: '' });
  });
});

describe('the glibc that a file needs', () => {
  it('is the newest that it names, by number', () => {
    const listing =
      '0x0010:   Name: GLIBC_2.4  Flags: none\n  Name: GLIBC_2.34  Flags: none\n Name: GLIBC_2.17';
    expect(newestGlibc(listing)).toBe('2.34');
    expect(newestGlibc('No version information found in this file.')).toBeNull();
  });
});
