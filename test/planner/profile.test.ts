// Features of a step, rooflines, tables, ranges; profiles are read as they were written, and
// refused if costs fall or are missing.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { paddedTokens, StepFeatures } from '../../src/executors/cost-model/step-features.js';
import { GPUS } from '../../src/planner/model/gpus.js';
import { readLlmServingSim } from '../../src/planner/model/llmservingsim.js';
import { type Profile, parseProfile, profileCost, rooflineProfile } from '../../src/planner/model/profile.js';
import { readProfile } from '../../src/planner/model/profile-file.js';
import { isOutside, RangeCollector, WatchedCost } from '../../src/planner/model/seen-range.js';
import { LLAMA_8B } from './models.js';

function features(prefills: readonly [scheduled: number, computed: number][], contexts: readonly number[]) {
  const step = new StepFeatures();
  for (const [scheduled, computed] of prefills) step.addPrefill(scheduled, computed);
  for (const context of contexts) step.addDecode(1, context);
  step.end();
  return step;
}

describe('the features of a step', () => {
  it('are exact', () => {
    const step = features([[3, 10]], [100, 40]);
    expect(step).toMatchObject({
      tokens: 5,
      paddedTokens: 5,
      rows: 3,
      prefills: 1,
      prefillTokens: 3,
      prefillContextTokens: 10,
      // The first new token attends to 11 tokens, the last one to 13.
      prefillPairs: 11 + 12 + 13,
      decodes: 2,
      decodeContextTokens: 140,
      largestDecodeContext: 100,
      meanDecodeContext: 70,
    });
  });

  it('pad decodes to captured graphs, and nothing else', () => {
    expect([1, 3, 5, 9, 256, 257, 511, 512, 513].map(paddedTokens)).toEqual([
      1, 4, 8, 16, 256, 272, 512, 512, 513,
    ]);
    expect(features([], [1, 1, 1]).paddedTokens).toBe(4);
    expect(features([[2, 0]], [1]).paddedTokens).toBe(3);
  });
});

describe('a roofline', () => {
  const profile = rooflineProfile(LLAMA_8B, 'Llama-3.1-8B', GPUS['h100']);
  const cost = profileCost(profile);

  it('has the weights and the KV cache of the model', () => {
    if (profile.kind !== 'roofline') throw new Error('no roofline');
    // 8.03 billion parameters less the embedding, in 16 bits; 128 KiB of KV a token.
    expect(profile.physics.weightBytes / 1e9).toBeCloseTo(15.01, 1);
    expect(profile.physics.kvBytesPerToken).toBe(131_072);
    expect(profile.physics.flopsPerPair).toBe(4 * 32 * 4096);
    expect(profile.kvTokens).toBeGreaterThan(400_000);
  });

  it('is bound by memory where it decodes, and by arithmetic where it computes a prompt', () => {
    const decode = cost.stepMs(features([], [1000]));
    expect(decode).toBeGreaterThan((1000 * 15.01e9) / 3.35e12);
    expect(decode).toBeLessThan(8);
    const prefill = cost.stepMs(features([[8192, 0]], []));
    expect(prefill).toBeGreaterThan((1000 * 8192 * 2 * 6.98e9) / 989e12);
    expect(prefill).toBeLessThan(400);
  });

  it('never costs less for more', () => {
    const steps = [
      features([], [10]),
      features([], [10, 10]),
      features([], [10, 100]),
      features([[5, 0]], [10, 100]),
      features([[5, 50]], [10, 100]),
      features([[50, 50]], [10, 100, 1000]),
    ].map((step) => cost.stepMs(step));
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    expect(new Set(steps).size).toBeGreaterThan(4);
  });

  it('shares a model among GPUs', () => {
    const two = rooflineProfile(LLAMA_8B, 'Llama-3.1-8B', GPUS['h100'], 2);
    if (two.kind !== 'roofline' || profile.kind !== 'roofline') throw new Error('no roofline');
    expect(two.physics.weightBytes).toBe(profile.physics.weightBytes / 2);
    expect(two.physics.commBytesPerToken).toBeGreaterThan(0);
    expect(two.kvTokens).toBeGreaterThan(2 * (profile.kvTokens as number));
  });

  it('refuses what it cannot read, and models that do not fit', () => {
    const make =
      (config: unknown, gpus = 1) =>
      () =>
        rooflineProfile(config, 'm', GPUS['h100'], gpus);
    expect(make({})).toThrow(/num_attention_heads/);
    expect(make({ ...LLAMA_8B, hidden_size: 'x' })).toThrow(/config.json: hidden_size must be .*got "x"/);
    expect(make({ ...LLAMA_8B, num_hidden_layers: 3200 })).toThrow(/more memory than the weights/);
    expect(make(LLAMA_8B, 3)).toThrow(/a divisor of num_attention_heads \(32\), got 3/);
    expect(make({ ...LLAMA_8B, quantization_config: { quant_method: 'odd' } })).toThrow(/8 or 4 bits/);
  });
});

describe('a range', () => {
  it('marks steps beyond it, and all where nothing was seen', () => {
    const seen = new RangeCollector();
    seen.add(features([[100, 0]], [50]));
    seen.add(features([], [50]));
    const range = seen.range();
    expect(isOutside(range, features([[50, 0]], [20]))).toBe(false);
    expect(isOutside(range, features([[50, 0]], [51]))).toBe(true);
    expect(isOutside(range, features([[101, 0]], []))).toBe(true);
    expect(isOutside(null, features([], [50]))).toBe(true);
    const watched = new WatchedCost({ stepMs: () => 1, hostMs: () => 0 }, range);
    watched.stepMs(features([], [50]));
    watched.stepMs(features([], [500]));
    expect(watched.shareOutside).toBe(0.5);
  });
});

/** A profile of which a test spoils something. */
interface Spoilable extends Record<string, unknown> {
  host: Record<string, unknown>;
  physics: Record<string, unknown>;
  coefficients: Record<string, unknown>;
  table: Record<'linear' | 'rows' | 'attention', number[][]>;
}

describe('profiles in files', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'blockstep-profile-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function table(): Profile {
    const {
      physics: _,
      coefficients: __,
      kind: ___,
      ...base
    } = rooflineProfile(LLAMA_8B, 'm', GPUS['h100']) as never as Record<string, unknown>;
    const linear = [
      [1, 5],
      [100, 9],
    ];
    const attention = [
      [0, 0, 1, 16, 1],
      [0, 0, 1, 32, 2],
      [0, 0, 3, 16, 3],
      [0, 0, 3, 32, 6],
      [10, 0, 0, 0, 4],
      [10, 0, 1, 16, 5],
    ];
    const rows = [
      [1, 1],
      [3, 2],
    ];
    return { ...base, kind: 'table', table: { linear, rows, attention, skew: 0.5 } } as unknown as Profile;
  }

  it('are read as they were written', () => {
    for (const profile of [rooflineProfile(LLAMA_8B, 'm', GPUS['l4']), table()]) {
      const path = join(folder, 'p.json');
      writeFileSync(path, JSON.stringify(profile));
      expect(readProfile(path)).toEqual(profile);
    }
  });

  it('look tables up between their points, and go on above them', () => {
    const cost = profileCost(parseProfile(table()));
    expect(cost.stepMs(features([], [16]))).toBe(5 + 1 + 1);
    expect(cost.stepMs(features([], [24]))).toBe(5 + 1 + 1.5);
    expect(cost.stepMs(features([], [48]))).toBe(5 + 1 + 3);
    // Attention of two decodes of 16 and 32. It takes 3 ms as two of 24, and half of the way to 4
    // ms, as two of 32.
    expect(cost.stepMs(features([], [16, 32]))).toBeCloseTo(5 + 4 / 99 + 1.5 + 3.5, 9);
  });

  const BAD: [string, (profile: Spoilable) => void, RegExp][] = [
    [
      'another schema',
      (p) => (p['schema'] = 'blockstep-profile/9'),
      /schema must be .*got "blockstep-profile\/9"/,
    ],
    ['another kind', (p) => (p['kind'] = 'guess'), /kind must be roofline, fitted, table, got "guess"/],
    ['an unknown name', (p) => (p['extra'] = 1), /extra/],
    ['NaN', (p) => (p['table'].linear[0][1] = Number.NaN), /table.linear/],
    ['a negative time', (p) => (p['table'].rows[0][1] = -1), /table.rows/],
    ['a falling time', (p) => (p['table'].attention[3][4] = 1), /table.attention.*at least the/],
    ['a point twice', (p) => p['table'].linear.push([100, 9]), /once/],
    ['a negative host', (p) => (p['host'].rowMs = -1), /host.rowMs/],
    ['a range that is none', (p) => (p['seen'] = { tokens: [2, 1] }), /seen.tokens/],
  ];
  it.each(BAD)('refuse %s', (_, spoil, says) => {
    const profile = structuredClone(table()) as unknown as Spoilable;
    spoil(profile);
    expect(() => parseProfile(profile)).toThrow(says);
  });

  it('refuse coefficients that are none', () => {
    const good = rooflineProfile(LLAMA_8B, 'm', GPUS['l4']) as unknown as Spoilable;
    for (const value of [Number.NaN, -1, Infinity, 'x', null]) {
      const coefficients = { ...good.coefficients, memory: value };
      expect(() => parseProfile({ ...good, coefficients })).toThrow(/coefficients.memory/);
      const physics = { ...good.physics, weightBytes: value };
      expect(() => parseProfile({ ...good, physics })).toThrow(/physics.weightBytes/);
    }
    expect(() => parseProfile({ ...good, physics: { ...good.physics, flopsPerSecond: 0 } })).toThrow(/flops/);
    // With these the cost would fall while the work grows.
    const falling = { ...good.coefficients, skew: 3, decodeAttention: 2 };
    expect(() => parseProfile({ ...good, coefficients: falling })).toThrow(
      /coefficients.skew must be .* 2, got 3/,
    );
    const experts = { ...good.physics, experts: 2, expertsPerToken: 5 };
    expect(() => parseProfile({ ...good, physics: experts })).toThrow(/expertsPerToken must be .*got 5/);
  });

  it('come from the tables of LLMServingSim too, evened out where they fall', () => {
    const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
    write('dense.csv', 'layer,tokens,time_us\nlayernorm,1,10\nembedding,1,7\nlayernorm,2,9\nembedding,2,7\n');
    write('per_sequence.csv', 'layer,sequences,time_us\nlm_head,1,500\n');
    write('attention.csv', 'prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,100\n');
    const { profile, evened, points } = readLlmServingSim(folder, 4, 0.05);
    expect({ evened, points }).toEqual({ evened: 2, points: 4 });
    // Two norms of 9.5 us in each of four layers, the embedding once, the head, four times attention.
    expect(profileCost(parseProfile(profile)).stepMs(features([], [16]))).toBeCloseTo(0.083 + 0.5 + 0.4, 9);
    expect(profile.seen).toMatchObject({ tokens: [1, 2], largestDecodeContext: [0, 16] });
    write('dense.csv', 'layer,tokens,time_us\nlayernorm,1,10\nembedding,2,7\n');
    expect(() => readLlmServingSim(folder, 4, 0)).toThrow(/has 1 of 2 layers/);
    write('dense.csv', 'layer,time_us\n');
    expect(() => readLlmServingSim(folder, 4, 0)).toThrow(/expected a column tokens/);
  });
});
