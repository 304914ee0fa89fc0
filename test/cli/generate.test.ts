// Generated workloads and their random numbers are equal for equal seeds, on every machine.
import { describe, expect, it } from 'vitest';
import { chance, mix, Random, textKey } from '../../src/base/random.js';
import { generateWorkload } from '../../src/workload/generate.js';

const OPTIONS = { requests: 3000, requestRate: 10, seed: 1 };

describe('generateWorkload', () => {
  it('gives equal workloads for equal seeds and others for others', () => {
    const [a, b, c] = [OPTIONS, OPTIONS, { ...OPTIONS, seed: 2 }].map(generateWorkload);
    for (const column of ['arrivalMs', 'inputTokens', 'outputTokens'] as const) {
      expect(a[column]).toEqual(b[column]);
      expect(a[column]).not.toEqual(c[column]);
    }
    for (const index of [0, 17, 2999]) expect(a.prompt(index)).toEqual(b.prompt(index));
  });

  it('arrives at the rate, in order, from 0 on', () => {
    const { arrivalMs } = generateWorkload(OPTIONS);
    expect(arrivalMs[0]).toBe(0);
    for (let i = 1; i < arrivalMs.length; i++) expect(arrivalMs[i]).toBeGreaterThanOrEqual(arrivalMs[i - 1]);
    const seconds = arrivalMs[arrivalMs.length - 1] / 1000;
    expect(3000 / seconds).toBeGreaterThan(9);
    expect(3000 / seconds).toBeLessThan(11);
  });

  it('shares prefixes among three quarters of the requests', () => {
    const workload = generateWorkload(OPTIONS);
    const firsts = new Map<string, number>();
    for (let i = 0; i < workload.length; i++) {
      const head = workload.prompt(i).subarray(0, 512).join();
      firsts.set(head, (firsts.get(head) ?? 0) + 1);
    }
    const shared = [...firsts.values()].filter((count) => count > 1).sort((a, b) => b - a);
    expect(shared.length).toBe(24);
    const share = shared.reduce((sum, count) => sum + count, 0) / workload.length;
    expect(share).toBeGreaterThan(0.72);
    expect(share).toBeLessThan(0.78);
    expect(shared[0]).toBeGreaterThan(5 * shared[23]);
  });

  it('draws lengths inside their ranges', () => {
    const { inputTokens, outputTokens, maxTotalTokens } = generateWorkload(OPTIONS);
    expect(Math.min(...inputTokens)).toBeGreaterThanOrEqual(16);
    expect(Math.min(...outputTokens)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...outputTokens)).toBeLessThanOrEqual(1024);
    expect(maxTotalTokens).toBe(Math.max(...inputTokens.map((tokens, i) => tokens + outputTokens[i])));
  });
});

describe('random numbers', () => {
  it('are the same on every machine', () => {
    expect([mix(0, 0), mix(1, 2), mix(2 ** 32 - 1, 7)]).toEqual([2856213345, 573375138, 580792605]);
    expect(textKey('')).toBe(0x811c9dc5);
    expect(textKey('a')).toBe(0xe40c292c);
  });

  it('spread evenly', () => {
    const random = new Random(5);
    const bins = new Array<number>(10).fill(0);
    for (let i = 0; i < 100_000; i++) bins[random.below(10)]++;
    for (const count of bins) expect(Math.abs(count - 10_000)).toBeLessThan(400);
    let sum = 0;
    for (let i = 0; i < 100_000; i++) sum += random.exponential(3);
    expect(Math.abs(sum / 100_000 - 3)).toBeLessThan(0.1);
  });

  it('do not follow from their neighbours', () => {
    let agree = 0;
    for (let i = 0; i < 10_000; i++) if (chance(i, 1) < 0.5 === chance(i + 1, 1) < 0.5) agree++;
    expect(Math.abs(agree - 5000)).toBeLessThan(200);
  });
});
