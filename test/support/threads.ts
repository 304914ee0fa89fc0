import type { Worker } from 'node:worker_threads';

/** Threads of this process that were started after this module was loaded, and go on. */
const running = new Map<Worker, Promise<void>>();

process.on('worker', (worker) => {
  const end = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  running.set(worker, end);
  void end.then(() => running.delete(worker));
});

/**
 * Waits until every thread has ended that was told to end: who removes the files that a thread opens would find them made anew.
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
