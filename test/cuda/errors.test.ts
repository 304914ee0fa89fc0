import { afterEach, describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/core/errors.js';
import { probeBackends } from '../../src/core/placement.js';
import { Scheduler } from '../../src/index.js';
import { codeOf } from '../core/bench-core.js';
import { isEmulated, plant } from '../support/gpu.js';

const OPTIONS = { numBlocks: 200, blockSize: 4, maxModelLen: 128, maxNumSeqs: 8, backend: 'cuda' } as const;
const CODES = ['ERR_BLOCKSTEP_CUDA', 'ERR_BLOCKSTEP_NO_MEMORY', 'ERR_BLOCKSTEP_MIRROR'];

/** Waits for the GPU, for a second at most. True: it has done all that it was given. */
async function settle({ core }: Scheduler): Promise<boolean> {
  for (const end = Date.now() + 1000; Date.now() < end; ) {
    if (core.native.poll()) return true;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return false;
}

/** Some steps of eight requests on the GPU, whose state is compared with the host's at the end. */
async function live(): Promise<void> {
  using scheduler = new Scheduler(OPTIONS);
  for (let i = 0; i < 8; i++) {
    scheduler.add({ id: `r${i}`, prompt: Int32Array.from({ length: 20 + i }, (_, at) => at), maxTokens: 5 });
  }
  for (let step = 0; step < 6; step++) {
    const plan = scheduler.schedule();
    const counts = Int32Array.from({ length: plan.numRequests }, (_, i) => plan.maxOutputTokens[i]);
    scheduler.update(plan, { tokens: new Int32Array(plan.numRequests).fill(9), counts });
  }
  expect(await settle(scheduler)).toBe(true);
  scheduler.core.native.startMirrorDigest();
  expect(await settle(scheduler)).toBe(true);
  expect(scheduler.core.native.mirrorDigest()).toBe(scheduler.core.native.digest());
}

/** What a life ends with: null, or its error, which has a code. */
async function outcome(): Promise<BlockstepError | null> {
  try {
    await live();
    return null;
  } catch (error) {
    if (error instanceof BlockstepError) return error;
    throw error;
  }
}

describe.skipIf(!isEmulated)('an error of CUDA', () => {
  afterEach(() => plant(''));

  it('has a code at whatever call it comes, and leaves nothing behind', async () => {
    let failures = 0;
    const words = new Set<string>();
    for (let call = 1; ; call++) {
      plant(`fail=${call}`);
      const error = await outcome();
      plant('');
      expect(await outcome(), `after call ${call} had failed`).toBeNull();
      if (error === null && call > 40) break;
      if (error === null) continue; // a call that only tells what a GPU is called
      failures++;
      expect(CODES, `${call}: ${error.message}`).toContain(error.code);
      expect(error.message).toMatch(/\w+ failed|could not allocate|cannot be used/);
      words.add(error.message.replace(/.*?(\w+|launch of [\w ]+) failed.*/, '$1'));
    }
    expect(failures).toBeGreaterThan(30);
    expect([...words].length).toBeGreaterThan(8);
  });
});
