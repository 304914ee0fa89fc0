// More sessions than rows: all places are used, and nobody starves.
import { describe, expect, it } from 'vitest';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const SESSIONS = 24;
const CHUNKS = 4;
const MAX_TOKENS = 3;

describe.each([1, 2] as const)(
  'more sessions than rows, each with its next chunk queued, at depth %i',
  (pipelineDepth) => {
    it.each([8, SESSIONS])('%i rows: every place is used, and no session starves', (numRows) => {
      const maxNumSeqs = 4;
      const driver = new Driver({
        ...{ pipelineDepth, maxNumSeqs, numRows, numBlocks: 33 * SESSIONS, maxNumBatchedTokens: 512 },
      });
      const input = { resumable: true, maxTokens: MAX_TOKENS };
      const sessions = Array.from({ length: SESSIONS }, (_, i) =>
        driver.add({ id: `s${i}`, prompt: prompt(4, i), ...input }),
      );
      for (const handle of sessions) {
        for (let chunk = 1; chunk < CHUNKS; chunk++)
          driver.addChunk(handle, { prompt: prompt(3, 30 + chunk) });
        driver.endSession(handle);
      }
      let steps = 0;
      driver.run(1000, () => {
        steps++;
        driver.scheduler.verify();
        return driver.scheduler.hasWork();
      });
      for (const handle of sessions) expect(driver.ends.get(handle)).toEqual(['length']);
      // With all places in use so many steps are enough, and a few while the pipeline fills and empties.
      expect(steps).toBeLessThan(1.5 * ((SESSIONS * CHUNKS * MAX_TOKENS) / maxNumSeqs) + 20);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  },
);
