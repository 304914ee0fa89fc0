// Waits for the end of the threads of this process, and terminates workers at random moments of
// their work.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect } from 'vitest';
import { seeded } from './core-bench.js';
import { share } from './share.js';

/** Threads of this process that were started after this module was loaded, and go on. */
const running = new Map<Worker, Promise<void>>();

process.on('worker', (worker) => {
  const end = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  running.set(worker, end);
  void end.then(() => running.delete(worker));
});

/**
 * Waits until every thread has ended that was told to end: otherwise files that a test removes
 * could be made again by a thread.
 * @param mostMs the threads that go on after so many milliseconds hang, or were not told to end
 */
export async function threadsEnded(mostMs = 20_000): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, mostMs);
  });
  await Promise.race([Promise.all(running.values()), limit]);
  clearTimeout(timer);
}

/** How often a worker is terminated here; `npm run test:long -- threads` does it a hundred times. */
export const TERMINATIONS = Number(process.env['BLOCKSTEP_TERMINATIONS'] ?? share(4, 8));

/**
 * Starts workers, one behind the other, and terminates each at a random moment of its work.
 * @param script says something when it is at work
 * @param mostMs how long a worker goes on after that, at most
 */
export async function terminateWorkers(
  script: string,
  env: NodeJS.ProcessEnv,
  { seed, mostMs }: { readonly seed: number; readonly mostMs: number },
): Promise<void> {
  const random = seeded(seed);
  for (let round = 0; round < TERMINATIONS; round++) {
    const worker = new Worker(script, { env });
    await once(worker, 'message');
    await new Promise((resolve) => setTimeout(resolve, random(mostMs)));
    expect(await worker.terminate()).toBe(1);
  }
}
