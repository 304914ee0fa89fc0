// A small share of the proof in `process/`.
import { describe, expect, it } from 'vitest';
import { KillRun } from './process/kills.js';

describe('engines in processes of their own', () => {
  it('are killed and stopped: nothing hangs, leaks or is wrong', { timeout: 900_000 }, async () => {
    // `npm run test:long -- lease` has 200 rounds. Times decide nothing here: every request must be right, however slow.
    const run = new KillRun(7, 'recompute');
    try {
      await run.start();
      for (let i = 0; i < 5; i++) await run.round();
      await run.end();
    } catch (error) {
      await run.giveUp();
      throw error;
    }
    const { kills, stops, handedOver, failed } = run.figures;
    expect(kills + stops).toBe(5);
    expect(handedOver).toBeGreaterThan(4);
    expect(failed).toBe(0);
  });
});
