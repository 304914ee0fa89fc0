// `explain` with KV cache groups: the blocks that a request holds and lacks, group by group.
import { describe, expect, it } from 'vitest';
import type { KvGroupOptions } from '../../../src/index.js';
import { EngineBench, prompt } from '../../support/engine-bench.js';

const WINDOWS: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 6 }];

describe('explain, with KV cache groups', () => {
  it('says what a request holds in each, and nothing of one that holds nothing', () => {
    const bench = new EngineBench({ kvGroups: WINDOWS, maxNumBatchedTokens: 8 });
    bench.submit({ id: 'a', prompt: prompt(22) });
    expect(bench.engine.explain('a')).not.toContain('holds');
    bench.engine.step();
    expect(bench.engine.explain('a')).toContain('; holds blocks (full: 2, sliding 6: 2)');
    bench.steps();
    expect(bench.engine.explain('a')).toMatch(/is unknown/);
    bench.submit({ id: 'b', prompt: prompt(22, 1), maxTokens: 30 });
    for (let i = 0; i < 5; i++) bench.engine.step();
    // Behind 23 tokens the window still sees 5 of them, which are in the last two blocks.
    expect(bench.engine.explain('b')).toMatch(/; holds blocks \(full: 6, sliding 6: 2 in 6 places\)$/);
    bench.engine.dispose();
    expect(bench.engine.explain('b')).toMatch(/; the engine was disposed$/);
  });

  it('says which blocks a request lacks, group by group, whoever asks', () => {
    const bench = new EngineBench({
      kvGroups: WINDOWS,
      numBlocks: 16,
      maxModelLen: 28,
      maxNumBatchedTokens: 16,
    });
    bench.submit({ id: 'x', prompt: prompt(16), maxTokens: 8 });
    bench.engine.step();
    bench.submit({ id: 'a', prompt: prompt(24, 1) });
    bench.submit({ id: 'b', prompt: prompt(6, 2) });
    bench.engine.step();
    const free = bench.engine.scheduler.core.freeBlocks;
    // Of 24 tokens 16 fit into a step: more than the free blocks, though fewer than the whole prompt needs.
    const [full, window] = bench.engine.scheduler.freeBlocksToAdmit(
      bench.engine.scheduler.get('a')!,
    ) as ArrayLike<number> as number[];
    const lack = `needs ${full + window} free blocks (full: ${full}, sliding 6: ${window}), there are ${free}`;
    expect([full, window]).toEqual([6, 6]);
    expect(bench.engine.explain('a')).toContain(`; it ${lack}`);
    expect(bench.engine.explain('b')).toContain(`; request "a" at the head of the queue ${lack}`);
  });

  it('counts a request once among the rows, however many groups there are', () => {
    const bench = new EngineBench({ kvGroups: WINDOWS, numRows: 4, maxNumSeqs: 3, maxNumBatchedTokens: 12 });
    for (const [i, id] of ['x', 'y', 'a'].entries()) bench.submit({ id, prompt: prompt(6, i) });
    bench.engine.step();
    expect(bench.engine.stats().scheduler.rowsInUse).toBe(2);
    expect(bench.engine.explain('a')).not.toContain('rows of the KV slot table');
  });

  it('says that a hit on a state had to wait for the step that makes it', () => {
    const kvGroups: KvGroupOptions[] = [{ type: 'full' }, { type: 'mamba', mode: 'align' }];
    const bench = new EngineBench({ kvGroups, maxNumBatchedTokens: 40 }, true);
    bench.submit({ id: 'x', prompt: prompt(8), maxTokens: 8 });
    bench.submit({ id: 'a', prompt: Int32Array.of(...prompt(8), 1, 2) });
    bench.engine.step();
    expect(bench.engine.numRunning).toBe(1);
    expect(bench.engine.explain('a')).toContain(
      '; it found a state in the cache that the last step makes, and had to wait for it',
    );
  });

  it('says of one group what it said before', () => {
    const bench = new EngineBench({ numBlocks: 6, maxModelLen: 20 });
    bench.submit({ id: 'x', prompt: prompt(12), maxTokens: 8 });
    bench.engine.step();
    bench.submit({ id: 'a', prompt: prompt(14, 1) });
    bench.engine.step();
    expect(bench.engine.explain('a')).toMatch(/; it needs 4 free blocks, there are 1$/);
    expect(bench.engine.explain('x')).not.toContain('holds');
  });
});
