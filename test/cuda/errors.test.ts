// Every CUDA error, at any call, becomes a code and poisons only its own scheduler.
import { afterEach, describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/base/errors.js';
import { probeBackends } from '../../src/core/placement.js';
import { Scheduler } from '../../src/index.js';
import { isEmulated, plant } from '../support/gpu.js';
import { PATIENCE_MS } from '../support/waiting.js';

const OPTIONS = { numBlocks: 200, blockSize: 4, maxModelLen: 128, maxNumSeqs: 8, backend: 'cuda' } as const;

/** Waits for the GPU. True: it has done all that it was given. */
async function settle({ core }: Scheduler): Promise<boolean> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    if (core.native.poll()) return true;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return false;
}

function step(scheduler: Scheduler): void {
  const plan = scheduler.schedule();
  const counts = Int32Array.from({ length: plan.numRequests }, (_, i) => plan.maxOutputTokens[i]);
  scheduler.update(plan, { tokens: new Int32Array(plan.numRequests).fill(9), counts });
}

function addRequests(scheduler: Scheduler, maxTokens: number): void {
  for (let i = 0; i < 8; i++) {
    scheduler.add({ id: `r${i}`, prompt: Int32Array.from({ length: 20 + i }, (_, at) => at), maxTokens });
  }
}

/** Some steps of eight requests on the GPU, whose state is compared with the host's at the end. */
async function live(): Promise<void> {
  using scheduler = new Scheduler(OPTIONS);
  addRequests(scheduler, 5);
  for (let i = 0; i < 6; i++) step(scheduler);
  expect(await settle(scheduler)).toBe(true);
  scheduler.core.native.startMirrorDigest();
  expect(await settle(scheduler)).toBe(true);
  expect(scheduler.core.native.mirrorDigest()).toBe(scheduler.core.native.digest());
}

/** The end of a life: null, or an error with a code. Anything else is thrown. */
async function outcome(): Promise<BlockstepError | null> {
  try {
    await live();
    return null;
  } catch (error) {
    if (error instanceof BlockstepError) return error;
    throw error;
  }
}

/** The call that failed, in the words of the error. */
const CALL =
  /cu(?:da(?!Error))?[A-Z]\w+|launch of (?:a digest|apply|initialise)|could not allocate|work on the GPU|CUDA cannot be used/;

describe.skipIf(!isEmulated)('an error of CUDA', () => {
  afterEach(() => plant(''));

  it('has a code at whatever call it comes, and leaves nothing behind', async () => {
    const named = new Set<string>();
    // The life makes some fifty calls, and asks as long as it waits. On a busy machine it asks more
    // often, so its last call comes later.
    for (let at = 1; at <= 75 || (at <= 3000 && !named.has('launch of a digest')); at++) {
      for (const fault of [`fail=${at}`, `ask=${at}`]) {
        plant(fault);
        const error = await outcome();
        plant('');
        expect(await outcome(), `after ${fault}`).toBeNull();
        if (error === null) continue;
        expect(['ERR_BLOCKSTEP_CUDA', 'ERR_BLOCKSTEP_NO_MEMORY']).toContain(error.code);
        const what = CALL.exec(error.message)?.[0] ?? '';
        expect(what, error.message).not.toBe('');
        named.add(what);
      }
    }
    expect([...named]).toEqual(
      expect.arrayContaining([
        'CUDA cannot be used',
        'cudaMallocFromPoolAsync',
        'cudaEventCreateWithFlags',
        'cudaMemcpyAsync',
        'cudaMemsetAsync',
        'cudaStreamCreateWithPriority',
        'launch of a digest',
        'launch of apply',
        'launch of initialise',
        'cuCtxPushCurrent',
      ]),
    );
  });

  it('is a lost device at whatever launch that happens: said once, and then always', async () => {
    let launch = 1;
    for (; ; launch++) {
      plant(`lose=${launch}`);
      const error = await outcome();
      if (error === null) break;
      expect(error.code, `launch ${launch}`).toBe('ERR_BLOCKSTEP_CUDA');
      expect(error.message).toContain('cudaErrorLaunchFailure');
      const reason = expect.stringContaining('cudaErrorLaunchFailure');
      expect(probeBackends()[1]).toMatchObject({ usable: false, reason });
    }
    // The initial state, a log or more, and the two halves of a digest. The GPU has passed the self-test before.
    expect(launch).toBeGreaterThan(4);
    plant('');
    expect(await outcome()).toBeNull();
  });

  it('poisons the scheduler that it comes to, and no other', () => {
    using other = new Scheduler({ ...OPTIONS, backend: 'host' });
    using scheduler = new Scheduler(OPTIONS);
    addRequests(scheduler, 50);
    addRequests(other, 50);
    step(scheduler);
    plant('lose=1');
    let thrown: unknown;
    for (let i = 0; i < 200 && thrown === undefined; i++) {
      try {
        step(scheduler);
      } catch (error) {
        thrown = error;
      }
    }
    expect(thrown).toMatchObject({ code: 'ERR_BLOCKSTEP_CUDA' });
    for (const call of [
      () => scheduler.schedule(),
      () => scheduler.verify(),
      () => addRequests(scheduler, 1),
    ]) {
      expect(call).toThrow((thrown as Error).message);
    }
    step(other);
    expect(other.schedule().numRequests).toBe(8);
  });

  it('is too little memory, at the start and never later', () => {
    plant('memory=100000');
    expect(() => new Scheduler(OPTIONS)).toThrow(
      /could not allocate \d+ bytes on the GPU: cudaErrorMemoryAllocation/,
    );
    using fallback = new Scheduler({ ...OPTIONS, backend: 'auto', device: 'cuda' });
    expect(fallback.core.backend).toMatchObject({
      name: 'host',
      reason: expect.stringContaining('could not allocate'),
    });
    plant('memory=10000000');
    using scheduler = new Scheduler(OPTIONS);
    const { deviceBytes, pinnedBytes } = scheduler.core.native.memory();
    addRequests(scheduler, 20);
    for (let i = 0; i < 22; i++) step(scheduler);
    expect(scheduler.core.native.memory()).toMatchObject({ deviceBytes, pinnedBytes });
  });

  it('is no driver, or no such GPU, in words', () => {
    plant('none');
    expect(probeBackends()[1]).toEqual({
      name: 'cuda',
      usable: false,
      reason: expect.stringMatching(/^no CUDA driver: /),
    });
    plant('devices=2');
    expect(probeBackends('cuda:1')[1].usable).toBe(true);
    expect(probeBackends('cuda:2')[1].reason).toBe('there is no GPU 2: CUDA sees 2');
  });

  it('ends a scheduler whose GPU hangs within seconds, and no process', () => {
    const scheduler = new Scheduler(OPTIONS);
    addRequests(scheduler, 5);
    plant('hang=1');
    step(scheduler);
    const start = performance.now();
    scheduler.dispose();
    expect(performance.now() - start).toBeLessThan(PATIENCE_MS);
  });
});
