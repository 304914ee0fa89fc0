// The only worker that uses CUDA is terminated with copies under way.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { runCommand, tail } from '../host/command.js';
import { TREE } from '../host/tree.js';
import type { Outcome } from '../record/record.js';
import { words } from './native-build.js';

/**
 * (a) A worker that alone in its process uses CUDA, terminated so many times at a random moment
 * with copies under way. The process must live, and its last worker must still be able to use the
 * GPU.
 * @param index URL of the package's entrance
 */
export async function terminateWorkers(
  times: number,
  addon: string | null,
  limit: number,
  index = pathToFileURL(join(TREE, 'dist', 'index.js')).href,
): Promise<Outcome> {
  const script = join(TREE, 'test', 'transfer', 'process', 'cuda.mjs');
  const program = `
    import { once } from 'node:events';
    import { Worker } from 'node:worker_threads';
    // A worker inherits the options of its process, and none with --input-type may run a file.
    for (let round = 0; round < ${times}; round++) {
      const worker = new Worker(${JSON.stringify(script)}, { execArgv: [], env: { ...process.env, LIFE: 'worker' } });
      await once(worker, 'message');
      await new Promise((resolve) => setTimeout(resolve, (round * 7) % 40));
      await worker.terminate();
    }
    console.log('terminated ${times} workers');`;
  const env = {
    BLOCKSTEP_INDEX: index,
    ...(addon === null ? {} : { BLOCKSTEP_ADDON: addon, EMULATED_GPU: 'delay=1000' }),
  };
  const ended = await runCommand(process.execPath, ['--input-type=module', '-e', program], { limit, env });
  const { status, timedOut, seconds, stdout } = ended;
  if (status === 0) return { verdict: 'passed', seconds, detail: tail(stdout) };
  return { verdict: timedOut ? 'unfinished' : 'failed', seconds, detail: words(ended) };
}
