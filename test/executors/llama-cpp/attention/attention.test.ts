// Blockstep's attention kernel beside llama.cpp's; a wrong kernel is turned off.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/base/random.js';
import { binaryPaths } from '../../../../src/core/loader.js';
import type {
  AttentionTrial,
  AttentionTrialResult,
} from '../../../../src/executors/llama-cpp/native/binding.js';
import { filesIn } from '../../../../src/executors/llama-cpp/native/packages.js';
import { hasLlama, libraryFolder, useLlama } from '../use-llama.js';

/**
 * Types of caches by llama.cpp's numbers, and how far off llama.cpp's own answer may be. It rounds
 * to 16 and 8 bits on the way, the kernel here does not.
 */
const TYPES = [
  { type: 0, most: 2e-5, step: 16 },
  { type: 1, most: 0.02, step: 16 },
  { type: 8, most: 0.05, step: 32 },
] as const;
const KERNELS = process.arch === 'x64' ? ['avx512', 'avx2', 'plain'] : ['neon', 'plain'];

interface Answer {
  readonly attention: string;
  readonly reason: string;
  readonly results: readonly AttentionTrialResult[];
}

/** Runs a program of this folder in a process of its own, which prints JSON. */
function runProgram(name: string, kernel: string, more: object): unknown {
  const files = filesIn({ folder: libraryFolder(), fallback: '' });
  // A build of this machine, or that of a release.
  const addon = binaryPaths('blockstep_llama.node', 'blockstep_llama.node').find((path) => existsSync(path));
  const options = { addon, files, kernel, ...more };
  const program = join(import.meta.dirname, name);
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, JSON.stringify(options)], {
    encoding: 'utf8',
    // A hang, and no machine that others use.
    timeout: 240_000,
  });
  if (status !== 0) throw new Error(`${status}: ${stderr}`);
  return JSON.parse(stdout);
}

const run = (kernel: string, trials: readonly AttentionTrial[]): Answer =>
  runProgram('trials.mjs', kernel, { trials }) as Answer;

/** Every head size from 16 to 256 and every group from 1 to 16, over all types, masks, caps and sinks. */
function randomTrials(seed: number): AttentionTrial[] {
  const random = new Random(seed);
  return Array.from({ length: 48 }, (_, i) => {
    const { type, step } = TYPES[i % 3];
    const size = Math.ceil((16 * (1 + (i % 16))) / step) * step;
    return {
      type,
      keySize: size,
      valueSize: i % 5 === 0 ? step * (1 + random.below(256 / step)) : size,
      kvHeads: 1 + random.below(3),
      group: 1 + ((5 * i) % 16),
      rows: 1 + random.below(i % 2 === 0 ? 70 : 6),
      cells: 1 + random.below(400),
      cap: random.below(3) === 0 ? 20 : 0,
      hasSinks: random.below(2) === 0,
      hasBiases: random.below(4) === 0,
      threads: 1 + random.below(3),
      seed: 1000 * seed + i,
      pattern: random.below(3),
    };
  });
}

describe.skipIf(!hasLlama)('our kernel of attention', { timeout: 250_000 }, () => {
  const use = useLlama();

  it.each(KERNELS)('answers as llama.cpp does, and each row as it does alone: %s', (kernel) => {
    const trials = randomTrials(1 + KERNELS.indexOf(kernel));
    const { attention, results } = run(kernel, trials);
    // A processor may lack what the fastest one needs.
    if (attention === 'llama') return expect(kernel).not.toBe('plain');
    expect(attention).toBe(kernel);
    const bad = results.filter(({ wasOurs, distance, isSameAlone }, i) => {
      const { most } = TYPES.find(({ type }) => type === trials[i].type) as (typeof TYPES)[number];
      return !wasOurs || !(distance < most) || !isSameAlone;
    });
    expect(bad).toEqual([]);
    // A trial whose kernels were one and the same would not tell anything.
    expect(results.some(({ distance }) => distance > 0)).toBe(true);
  });

  it('is taken by itself', () => {
    const { attention, reason } = run('', []);
    expect(KERNELS).toContain(attention);
    expect(reason).toBe('');
  });

  it('is turned off where it is wrong', () => {
    const { attention, reason } = run('broken', []);
    expect(attention).toBe('llama');
    expect(reason).toMatch(/^it differs from llama.cpp's by [\d.]+ in trial \d$/);
  });

  it('ends only the requests whose rows a thread without memory could not compute', () => {
    const model = use.path();
    const answers = (kernel: string) => runProgram('starved.mjs', kernel, { model, lengths: [40, 520, 40] });
    // No token can be picked from logits that are no numbers.
    const [good, failed] = [1, 0].map((count) => ({ failure: '', count }));
    expect(answers('starved')).toEqual([good, failed, good]);
    expect(answers('plain')).toEqual([good, good, good]);
  });

  it('can be left out', () => {
    expect(run('llama', [])).toEqual({ attention: 'llama', reason: '', results: [] });
  });
});
