// With KV cache groups on a GPU: random lives, planted errors, texts through an engine; refused
// tables, CUDA errors.
import '../support/gpu.js';
import { afterEach, describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/base/errors.js';
import type { DeviceTables } from '../../src/core/device-tables.js';
import type { SchedulerOptions } from '../../src/index.js';
import {
  drawChunks,
  drawDraftStates,
  drawDrafts,
  drawGroupOptions,
} from '../executors/reference/groups/draw.js';
import { itGivesUnpagedTexts } from '../executors/reference/groups/engine-texts.js';
import { groupLife } from '../executors/reference/groups/lives.js';
import { describePlantedGroups } from '../executors/reference/groups/planted.js';
import { ReferenceDriver, wordy } from '../executors/reference/support.js';
import { isEmulated, plant } from '../support/gpu.js';
import { share } from '../support/share.js';

const STATES = [
  { type: 'full', blockSize: 4 },
  { type: 'mamba', blockSize: 4, mode: 'align' },
] as const;
const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(3, 6, 30));

type Draw = (next: (n: number) => number, seed: number) => Partial<SchedulerOptions>;
const depthOf = (seed: number) => (1 + (seed % 3)) as 1 | 2 | 3;
const DRAWS: Record<string, Draw> = {
  'groups of every type': (next, seed) => drawGroupOptions(next, depthOf(seed)),
  'chunks that begin inside blocks': (next, seed) => drawGroupOptions(next, depthOf(seed), drawChunks),
  'drafts beside windows and chunks': (next, seed) => drawDrafts(next, depthOf(seed)),
  'drafts beside states': (next, seed) => drawDraftStates(next, (1 + (seed % 2)) as 1 | 2),
};

describe.each(Object.entries(DRAWS))('random lives over KV cache groups on a GPU: %s', (_, draw) => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    it(`seed ${seed}: every text is that of an unpaged computation, and the memory is never wrong`, async () => {
      await groupLife(seed, (next) => draw(next, seed), { device: 'cuda' }, 'device');
    });
  }
});

describe('errors planted in KV cache groups on a GPU', () => {
  describePlantedGroups({ device: 'cuda' }, Number(process.env['BLOCKSTEP_PLACES'] ?? 1));
});

describe('texts through the engine, over KV cache groups on a GPU', () => {
  itGivesUnpagedTexts({ device: 'cuda' });
});

it('tables of a group that no GPU can read are refused, and nothing is computed', async () => {
  using driver = new ReferenceDriver({ kvGroups: STATES }, { device: 'cuda' }, 'device');
  driver.add({ id: 'a', prompt: wordy(9, 1) });
  const plan = driver.scheduler.schedule();
  const tables = driver.scheduler.core.gatherOnDevice(plan.frame, plan.numRequests);
  const [full, states] = tables.groups;
  const given = (group: object) => {
    const groups = { value: [full, { ...states, ...group }] };
    return driver.executor.execute(plan, Object.create(tables, { groups }) as DeviceTables);
  };
  expect(() => given({ blockTable: { ...states.blockTable, device: 'cuda:1' } })).toThrow(
    'tables.groups[1].blockTable.device must be',
  );
  expect(() => given({ slotMapping: { ...states.slotMapping, pointer: 0n } })).toThrow(
    'tables.groups[1].slotMapping.pointer must be',
  );
  expect(() => given({ blockSize: 8 })).toThrow('tables.groups[1].blockSize must be 4');
  expect(driver.executor.memory().numSequences).toBe(0);
  await given({});
  expect(driver.executor.memory().numSequences).toBe(1);
  expect(driver.executor.faults).toEqual([]);
});

describe.skipIf(!isEmulated)('an error of CUDA in a step with groups', () => {
  afterEach(() => plant(''));

  /**
   * A text with drafts beside states, whose plans have blocks to zero. @returns the error code with
   * which it ended
   */
  async function life(): Promise<string> {
    try {
      using driver = new ReferenceDriver({ kvGroups: STATES, numSpeculativeTokens: 2 }, { device: 'cuda' });
      driver.add({ id: 'a', prompt: wordy(9, 1), maxTokens: 6 });
      await driver.run();
      expect(driver.ends.size).toBe(1);
    } catch (error) {
      if (error instanceof BlockstepError) return error.code;
      throw error;
    }
    return 'nothing';
  }

  it('has a code at whatever call it comes, and leaves nothing behind', async () => {
    let failures = 0;
    for (let call = 1; call < 400; call++) {
      plant(`fail=${call}`);
      const code = await life();
      plant('');
      if (code === 'nothing' && call > 100) break;
      if (code === 'nothing') continue;
      failures++;
      expect(['ERR_BLOCKSTEP_CUDA', 'ERR_BLOCKSTEP_NO_MEMORY'], `call ${call}`).toContain(code);
      if (call % 5 === 0) expect(await life(), `after call ${call} had failed`).toBe('nothing');
    }
    expect(failures).toBeGreaterThan(50);
  });
});
