// The run, with a given number of disturbances.
import { describe, expect, it, onTestFinished } from 'vitest';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { KillRun } from './kills.js';

/** More by `npm run test:long -- pipeline`. */
const ROUNDS = Number(process.env['BLOCKSTEP_PIPELINE_KILLS'] ?? 0);
const SEED = Number(process.env['BLOCKSTEP_PIPELINE_SEED'] ?? 1);

describe.skipIf(whyNoRedis !== null)('a pipeline in several processes over Redis', () => {
  it('survives the kill of a stage, of the server and of a client', { timeout: 3_600_000 }, async () => {
    const run = new KillRun(SEED, await RedisServer.start());
    onTestFinished(() => run.end());
    await run.start();
    if (ROUNDS === 0)
      for (const disturbance of ['kill talker', 'kill server', 'stop thinker'] as const)
        await run.round(disturbance);
    for (let i = 1; i <= ROUNDS; i++) {
      await run.round();
      if (i % 10 === 0 || i === ROUNDS) console.log(`${i} of ${ROUNDS}: ${JSON.stringify(run.figures)}`);
    }
    // Else this would have shown nothing.
    expect(run.figures.right).toBeGreaterThan(3);
    expect(run.figures.failed).toBeGreaterThan(0);
  });
});
