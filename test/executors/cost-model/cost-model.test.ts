// The cost model: milliseconds of a step by its work.
import { describe, expect, it } from 'vitest';
import {
  type CostModel,
  costOf,
  DEFAULT_COST_MODEL,
  deviceMs,
} from '../../../src/executors/cost-model/cost-model.js';
import { aloneMs } from '../../../src/executors/cost-model/step-cost.js';

const MODEL: CostModel = {
  stepOverheadMs: 2,
  prefillTokensPerSecond: 1000,
  weightBytes: 5e9,
  kvBytesPerToken: 1e6,
  memoryBytesPerSecond: 1e12,
};

describe('the cost model', () => {
  it('bounds prefill by its speed', () => {
    expect(deviceMs(MODEL, { prefillTokens: 250, decodes: 0, decodeContextTokens: 0 })).toBeCloseTo(250, 9);
  });

  it('reads the weights once and the KV of every token for decodes', () => {
    expect(deviceMs(MODEL, { prefillTokens: 0, decodes: 1, decodeContextTokens: 100 })).toBeCloseTo(5.1, 9);
    expect(deviceMs(MODEL, { prefillTokens: 0, decodes: 9, decodeContextTokens: 900 })).toBeCloseTo(5.9, 9);
  });

  it('adds up prefill and decode, and costs nothing without load', () => {
    expect(deviceMs(MODEL, { prefillTokens: 10, decodes: 2, decodeContextTokens: 1000 })).toBeCloseTo(16, 9);
    expect(deviceMs(MODEL, { prefillTokens: 0, decodes: 0, decodeContextTokens: 0 })).toBe(0);
  });

  it('adds up the steps of a request that runs alone', () => {
    let steps = 2 + deviceMs(MODEL, { prefillTokens: 70, decodes: 0, decodeContextTokens: 0 });
    for (let known = 71; known < 70 + 9; known++) {
      steps += 2 + deviceMs(MODEL, { prefillTokens: 0, decodes: 1, decodeContextTokens: known });
    }
    expect(aloneMs(costOf(MODEL), 70, 9)).toBeCloseTo(steps, 9);
    expect(aloneMs(costOf(MODEL), 70, 1)).toBeCloseTo(72, 9);
  });

  it('decodes about 140 tokens a second alone by default', () => {
    const perToken =
      aloneMs(costOf(DEFAULT_COST_MODEL), 1000, 101) - aloneMs(costOf(DEFAULT_COST_MODEL), 1000, 1);
    expect(1000 / (perToken / 100)).toBeGreaterThan(135);
    expect(1000 / (perToken / 100)).toBeLessThan(145);
  });
});
