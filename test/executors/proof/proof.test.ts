// Runs 150 configurations, and the ones that failed once; `npm run test:long -- executors` runs
// 10,000.
import { describe, expect, it } from 'vitest';
import { share } from '../../support/share.js';
import { Run } from './proof-run.js';

const CONFIGURATIONS = share(30, 60, 150);
/** Configurations that once went wrong: a lost block was somebody else's by the time that it was named. */
const RARE = [906_885];

describe('an executor that was written from docs/executors.md alone', () => {
  it(`gives every request the text of an unpaged computation, in ${CONFIGURATIONS} random configurations`, async () => {
    const wrong: string[] = [];
    let mostInFlight = 0;
    let draftsAccepted = 0;
    for (const seed of [...Array(CONFIGURATIONS).keys(), ...RARE]) {
      const outcome = await new Run(seed).run();
      for (const what of outcome.wrong) wrong.push(`seed ${seed}: ${what}`);
      mostInFlight = Math.max(mostInFlight, outcome.totals.mostInFlight);
      draftsAccepted += outcome.totals.draftsAccepted;
    }
    expect(wrong).toEqual([]);
    expect(mostInFlight).toBe(3);
    expect(draftsAccepted).toBeGreaterThan(share(100, 250, 700));
  });
});
