// Random lives over random groups, with and without drafts, have the texts of an unpaged
// computation, and nothing is found in them.
import { describe, expect, it } from 'vitest';
import { share } from '../../../support/share.js';
import { ReferenceDriver, wordy } from '../support.js';
import { drawChunks, drawDraftStates, drawDrafts, drawGroupOptions } from './draw.js';
import { groupLife } from './lives.js';

/** `npm test` has one life of so many: no multiple of the depths. */
const EVERY = share(5, 1);
/** How often each thing happened that the lives are to go through. */
const seen = { hits: 0, preemptions: 0, types: new Set<string>() };

const TITLE = 'every text is that of an unpaged computation, and the memory is never wrong';

describe('random lives over chunks that begin inside blocks', () => {
  for (let seed = 1; seed <= 60; seed += EVERY) {
    it(`seed ${seed}: ${TITLE}`, async () => {
      await groupLife(seed, (next) => drawGroupOptions(next, (1 + (seed % 2)) as 1 | 2, drawChunks));
    });
  }
});

describe('random lives with drafts', () => {
  let verified = 0;
  let accepted = 0;
  for (let seed = 1; seed <= 120; seed += EVERY) {
    it(`seed ${seed}: ${TITLE}`, async () => {
      const { stats } = await groupLife(seed, (next) => drawDrafts(next, (1 + (seed % 3)) as 1 | 2 | 3));
      verified += stats.specDraftTokens;
      accepted += stats.specAcceptedTokens;
    });
  }

  it('accept drafts, and reject others', () => {
    expect(accepted).toBeGreaterThan(0);
    expect(verified).toBeGreaterThan(accepted);
  });
});

describe('random lives with drafts beside states', () => {
  /** Accepted drafts by mode and depth. */
  const accepted: Record<string, number> = {};
  for (let seed = 1; seed <= 120; seed += EVERY) {
    it(`seed ${seed}: ${TITLE}`, async () => {
      const { stats, config } = await groupLife(seed, (next) =>
        drawDraftStates(next, (1 + (seed % 2)) as 1 | 2),
      );
      const { pipelineDepth, kvGroups } = config;
      for (const { mode } of kvGroups?.list ?? [])
        if (mode !== null)
          accepted[`${mode} ${pipelineDepth}`] =
            (accepted[`${mode} ${pipelineDepth}`] ?? 0) + stats.specAcceptedTokens;
    });
  }

  it('accept drafts beside states of every mode, at depth 1 and 2', () => {
    expect(Object.keys(accepted).sort()).toEqual([
      'align 1',
      'align 2',
      'all 1',
      'all 2',
      'none 1',
      'none 2',
    ]);
    expect(Math.min(...Object.values(accepted))).toBeGreaterThan(20);
  });
});

it('with keepDraftWindows off, blocks are let go that a rejected draft takes a request back to', async () => {
  using driver = new ReferenceDriver(
    {
      kvGroups: [
        { type: 'full', blockSize: 2 },
        { type: 'sliding', blockSize: 2, window: 3 },
      ],
      blockSize: 2,
      numBlocks: 64,
      pipelineDepth: 2,
      numSpeculativeTokens: 4,
      deviations: ['keepDraftWindows'],
    },
    { draftErrorRate: 1 },
  );
  driver.add({ id: 'a', prompt: wordy(9, 1), maxTokens: 12 });
  await expect(driver.run()).rejects.toThrow('in place 5 of group 1');
});

describe('random lives over KV cache groups', () => {
  // From this seed on so few have groups of every type.
  for (let seed = share(4, 1); seed <= 120; seed += EVERY) {
    it(`seed ${seed}: ${TITLE}`, async () => {
      const { stats, config } = await groupLife(seed, (next) =>
        drawGroupOptions(next, (1 + (seed % 2)) as 1 | 2),
      );
      seen.hits += stats.prefixCacheHits;
      seen.preemptions += stats.numPreemptions;
      for (const { type, mode } of config.kvGroups?.list ?? []) seen.types.add(`${type} ${mode}`);
    });
  }

  it('go through hits, preemptions, and groups of every type', () => {
    expect(seen.hits).toBeGreaterThan(0);
    expect(seen.preemptions).toBeGreaterThan(0);
    expect([...seen.types].sort()).toEqual([
      'chunked null',
      'full null',
      'mamba align',
      'mamba all',
      'mamba none',
      'mla null',
      'sink null',
      'sliding null',
    ]);
  });
});
