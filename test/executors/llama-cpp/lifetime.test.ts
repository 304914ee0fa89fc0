// Workers that are terminated, disposal in the middle of a step, memory that comes back.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { useCompiled } from '../../misuse/process/compiled.js';
import { share } from '../../support/share.js';
import { terminateWorkers } from '../../support/threads.js';
import { hasLlama, libraryFolder, useLlama } from './use-llama.js';

const script = (name: string) => fileURLToPath(new URL(`process/${name}.mjs`, import.meta.url));
const run = promisify(execFile);

/** A hang, and no machine that others use, however slow: beside ten others and with `nice` this took a minute. */
const MOST_MS = 240_000;

describe.skipIf(!hasLlama)('threads and processes with llama.cpp', { timeout: MOST_MS }, () => {
  const compiled = useCompiled();
  const use = useLlama();
  const env = () => ({ ...compiled.env, MODEL: use.path(), BLOCKSTEP_LLAMA_LIBRARY: libraryFolder() });

  async function live(life: string): Promise<unknown> {
    const { stdout, stderr } = await run(process.execPath, ['--expose-gc', script('life'), life], {
      env: env(),
      timeout: MOST_MS - 5000,
    });
    expect(stderr).toBe('');
    return JSON.parse(stdout);
  }

  it('a worker at work is terminated at a random moment, several times', async () => {
    await terminateWorkers(script('worker'), env(), { seed: 5, mostMs: 60 });
  });

  it('a hundred engines and models leave no memory behind', async () => {
    // Each has weights of 1 MiB, a cache of 1 MiB, and memory to compute in.
    const { grown } = (await live('many')) as { grown: number };
    console.log(`the process grew by ${grown.toFixed(1)} MiB over 80 engines`);
    expect(grown).toBeLessThan(40);
  });

  it('an engine is disposed while a step is computed', async () => {
    expect(await live('disposed')).toEqual(new Array(4).fill('ERR_BLOCKSTEP_DISPOSED'));
  });

  it('two models and three engines in one process', async () => {
    expect(await live('two')).toBe(true);
  });

  it.skipIf(process.platform !== 'linux')('threads that compute stay from step to step', async () => {
    // Threads of the process when nothing is computed: with 1 thread, with 2, after more steps with 2, and after its end.
    const [one, three, later, ended] = (await live('threads')) as number[][];
    const own = three.filter((thread) => !one.includes(thread));
    // The two are the context's own thread, and one that computes beside it.
    expect(own.length).toBe(2);
    expect(later).toEqual(expect.arrayContaining(own));
    expect(ended.filter((thread) => own.includes(thread))).toEqual([]);
  });

  it('an idle executor keeps no process alive', async () => {
    expect(await live('idle')).toBe(0);
  });

  it('a process exits while a step is computed', async () => {
    // Where a thread goes on while the process ends, about every second of these processes breaks down.
    for (let k = 0; k < share(1, 3, 6); k++) expect(await live('exits')).toBe('exiting');
  });
});
