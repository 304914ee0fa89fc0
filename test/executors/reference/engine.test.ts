// Texts through an engine are right; a wrong block fails its step, with the fault as the cause.
import { describe, expect, it } from 'vitest';
import { itGivesTheTextsOfRequestsAlone, makeEngine, ON_HOST, type Sizes } from './engine-texts.js';

describe('texts through the engine, over real KV data', () => {
  itGivesTheTextsOfRequestsAlone(ON_HOST);

  it('are told to be wrong when a block is: the step fails, with what was found as its cause', async () => {
    const sizes: Sizes = { numBlocks: 24, blockSize: 4, maxModelLen: 64, pipelineDepth: 1 };
    const { engine, executor } = makeEngine(sizes, ON_HOST);
    void engine.run();
    const stream = engine.submit({ id: 'a', prompt: Int32Array.of(1, 2, 3, 1, 2, 3), maxTokens: 40 });
    let planted = false;
    const { native } = engine.scheduler.core;
    const gather = engine.scheduler.core.gather.bind(engine.scheduler.core);
    engine.scheduler.core.gather = (frame, numEntries) => {
      const tables = gather(frame, numEntries);
      if (stream.numOutputTokens === 5 && !planted) {
        planted = true;
        tables.blockTable[0] = native.readBlocks(0, 0, new Int32Array(1)) + 7;
      }
      return tables;
    };
    await expect(stream.result()).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_EXECUTOR',
      cause: { code: 'ERR_BLOCKSTEP_KV_MISMATCH' },
    });
    expect(executor.numFaults).toBeGreaterThan(0);
    await engine.shutdown();
  });
});
