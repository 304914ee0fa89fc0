// A minute of sustained traffic with aborts ends with everything empty or accounted for.
import { describe, expect, it } from 'vitest';
import { share } from '../../support/share.js';
import { Sustained } from './sustained.js';

describe('an offload under sustained traffic', () => {
  it.each(share<readonly (1 | 2 | 3)[]>([2], [1, 2, 3]))(
    'ends with everything empty or accounted for, at depth %i',
    async (pipelineDepth) => {
      const traffic = { seconds: 60, seed: 1, pipelineDepth, numRanks: 2, aborts: 37, failures: 1 };
      const outcome = await new Sustained(traffic).run();
      expect(outcome.wrong).toEqual([]);
      // Else this would have shown nothing.
      expect(outcome.requests).toBeGreaterThan(300);
      expect(outcome.aborted).toBeGreaterThan(0.28 * outcome.requests);
      expect(outcome.preemptions).toBeGreaterThan(0);
      expect(outcome.hits).toBeGreaterThan(30);
      expect(outcome.evicted).toBeGreaterThan(100);
    },
  );
});
