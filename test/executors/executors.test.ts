import { describe, expect, it } from 'vitest';
import { Run } from './proof-run.js';

const CONFIGURATIONS = 200;

describe('an executor that was written from docs/executors.md alone', () => {
  it(`gives every request the text of an unpaged computation, in ${CONFIGURATIONS} random configurations`, async () => {
    const wrong: string[] = [];
    let mostInFlight = 0;
    let draftsAccepted = 0;
    for (let seed = 0; seed < CONFIGURATIONS; seed++) {
      const outcome = await new Run(seed).run();
      for (const what of outcome.wrong) wrong.push(`seed ${seed}: ${what}`);
      mostInFlight = Math.max(mostInFlight, outcome.totals.mostInFlight);
      draftsAccepted += outcome.totals.draftsAccepted;
    }
    expect(wrong).toEqual([]);
    expect(mostInFlight).toBe(3);
    expect(draftsAccepted).toBeGreaterThan(1000);
  });
});
