// Bad groups, plans and tables; the group in the message of a fault.
import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../../../src/core/loader.js';
import type { StepTables } from '../../../../src/core/tables.js';
import { nativeGroups } from '../../../../src/executors/reference/groups.js';
import {
  type KvGroupOptions,
  ReferenceExecutor,
  type ReferenceExecutorOptions,
} from '../../../../src/index.js';
import { ruledConfig } from '../../../../src/scheduler/options/options.js';
import { codeOf } from '../../../support/driver.js';
import { ReferenceDriver, wordy } from '../support.js';
import { rowOf } from './plants.js';

const GROUPS = [
  { type: 'full', blockSize: 4 },
  { type: 'sliding', blockSize: 2, window: 5 },
] as const;
const SIZES = { numBlocks: 30, blockSize: 4, maxNumSeqs: 4, maxNumBatchedTokens: 32, maxModelLen: 64 };

function make(options: Partial<ReferenceExecutorOptions>): () => ReferenceExecutor {
  return () => new ReferenceExecutor({ ...SIZES, ...options } as ReferenceExecutorOptions);
}

describe('options', () => {
  it.each([
    [[], 'kvGroups must be a list of 1 to 8 groups'],
    [7, 'kvGroups must be'],
    [[{ type: 'windowed' }], 'kvGroups[0].type must be one of'],
    [[{ type: 'sliding' }], 'kvGroups[0].window must be'],
    [{ list: 3 }, 'kvGroups must be'],
  ])('kvGroups of %j are refused by name', (kvGroups, message) => {
    const refused = make({ kvGroups: kvGroups as KvGroupOptions[] });
    expect(codeOf(refused)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(refused).toThrow(message);
  });

  it('a state takes one entry of the KV memory, and a block those of the largest', () => {
    using states = make({ kvGroups: [{ type: 'mamba' }, { type: 'full', blockSize: 2 }] })();
    expect(states.kv.bytesPerBlock).toBe(2 * 32);
    using windows = make({ kvGroups: GROUPS })();
    expect(windows.kv.bytesPerBlock).toBe(4 * 32);
  });
});

describe('plans and tables', () => {
  it('of other groups are refused, and nothing is computed', () => {
    using driver = new ReferenceDriver({ kvGroups: [...GROUPS].reverse() });
    using other = new ReferenceDriver({ kvGroups: GROUPS });
    using plain = new ReferenceDriver();
    driver.add({ id: 'a', prompt: wordy(9, 1) });
    const plan = driver.scheduler.schedule();
    const tables = driver.scheduler.core.gather(plan.frame, plan.numRequests);
    expect(() => other.executor.execute(plan, tables)).toThrow('tables.groups[0].blockSize must be 4, got 2');
    expect(() => driver.executor.execute(plan, { ...tables, groups: [] } as StepTables)).toThrow(
      'tables.groups',
    );
    expect(codeOf(() => plain.executor.execute(plan, tables))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(other.executor.memory().numSequences).toBe(0);
  });
});

describe('the native part', () => {
  it('refuses bad groups', () => {
    using driver = new ReferenceDriver({ kvGroups: GROUPS });
    const { groups } = nativeGroups(ruledConfig(driver.scheduler.config));
    const config = {
      ...SIZES,
      maxTokens: 32,
      maxEntries: 4,
      maxBlocksPerRow: 16,
      maxDrafts: 0,
      pipelineDepth: 1,
      seed: 0,
      eosToken: 2 ** 31 - 1,
      wrongDrafts: 0,
      reportOnly: false,
    };
    const refuses = (bad: object) => codeOf(() => loadAddon().createReference({ ...config, ...bad }));
    const group = groups?.[1];
    for (const bad of [
      7,
      [],
      [7],
      [{ ...group, reads: 'some' }],
      [{ ...group, span: 0 }],
      [{ ...group, blockSize: 5 }],
    ])
      expect(refuses({ groups: bad })).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
});

it('a place that holds nothing is named with its request, group and place', async () => {
  using driver = new ReferenceDriver({ kvGroups: GROUPS });
  driver.add({ id: 'a', prompt: wordy(9, 1) });
  await driver.step();
  driver.tamper = (_, tables) => rowOf(tables.groups[1], 0).fill(0, 3, 4);
  await expect(driver.step()).rejects.toThrow(
    /null-read by entry 0 \('?"?a'?"?, handle \d+\) at position 6 in place 3 of group 1 in block 0/,
  );
});
