// The batch example answers a file of lines and continues one that was interrupted.
import { describe, expect, it } from 'vitest';
import { continueLines } from '../../examples/batch.js';
import { Engine, ReferenceExecutor } from '../../src/index.js';

describe('a batch of lines', () => {
  it('is continued line by line, and says how far it is', async () => {
    const said: string[] = [];
    const options = { numBlocks: 256, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
    const engine = new Engine({ ...options, executor: new ReferenceExecutor(options) });
    const rose = 'A rose is a rose is a rose. The rain in Spain stays mainly in the plain. A rose is';
    const lines = [rose, '', `${rose} a rose. The rain`];
    const texts = await continueLines(engine, lines, 6, (text) => said.push(text));
    expect(texts[0]).toBe(' a rose is a rose.');
    expect(texts[1]).toMatch(/^\(BlockstepError: prompts\[1\]: prompt must be at least one token/);
    expect(texts[2]).toBe(' in Spain stays mainly in the');
    expect(said).toEqual(['3 of 3: 12 tokens']);
    engine.verify();
    await engine.shutdown();
  });
});
