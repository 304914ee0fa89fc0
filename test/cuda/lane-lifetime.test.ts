// CUDA lanes without references are collected; workers are terminated while a GPU copies (emulated
// GPU only).
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, it } from 'vitest';
import { terminateWorkers } from '../../bench/gpu/checks/termination.js';
import { useCompiled } from '../misuse/process/compiled.js';
import { isEmulated, plant } from '../support/gpu.js';
import { share } from '../support/share.js';
import { PATIENCE_MS } from '../support/waiting.js';

const script = fileURLToPath(new URL('../transfer/process/cuda.mjs', import.meta.url));

// Needs the emulated GPU, which is slow: a real GPU would be done with the copies before the worker ends.
describe.skipIf(!isEmulated)('copies of a GPU', () => {
  const compiled = useCompiled();
  afterAll(() => {
    plant('');
  });

  it.each([
    ['end', 0],
    ['exit', 7],
    ['throw', 1],
    ['disposed', 0],
  ])('let a process end while they are under way: %s', (life, code) => {
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, [script], {
      encoding: 'utf8',
      env: { ...compiled.env, LIFE: life },
      timeout: PATIENCE_MS,
    });
    expect([status, signal, stdout]).toEqual([code, null, 'true']);
    if (code !== 1) expect(stderr).toBe('');
  });

  it('do not keep lanes and arenas that nobody holds, nor their memory', () => {
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', script], {
      encoding: 'utf8',
      env: { ...compiled.env, LIFE: 'collected' },
      timeout: PATIENCE_MS,
    });
    expect([status, signal, stderr]).toEqual([0, null, '']);
    expect(Number(stdout)).toBeLessThan(32);
  });

  it('survive that their worker is terminated at a random moment, several times', async () => {
    plant('delay=1000'); // native code does not see the environment of a worker
    for (let round = 0; round < share(3, 3, 6); round++) {
      const worker = new Worker(script, { env: { ...compiled.env, LIFE: 'worker' } });
      await once(worker, 'message');
      await new Promise((resolve) => setTimeout(resolve, 17 * round));
      expect(await worker.terminate()).toBe(1);
    }
  });

  it('survive that worker after worker is terminated, as the run on a GPU host does it', async () => {
    const { BLOCKSTEP_ADDON: addon = null, BLOCKSTEP_INDEX: index } = compiled.env;
    const outcome = await terminateWorkers(2, addon, 60, index);
    expect(outcome).toMatchObject({ verdict: 'passed', detail: 'terminated 2 workers' });
  });
});
