// The processor time of the engine's thread.
import { readFileSync } from 'node:fs';
import { sleep } from './decodes.js';

/**
 * Microseconds for which the main thread of this process has run on a processor, without other threads; null where the
 * system does not say. Linux brings the number up to date when the thread sleeps, so this sleeps first.
 */
function mainThreadTime(): number | null {
  sleep(1);
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]) / 1000;
  } catch {
    return null;
  }
}

/** Adds up for how long the main thread has run on a processor. */
export class Stopwatch {
  /** Microseconds. */
  spent = 0;
  /** Whether the system says. */
  isKnown = true;

  run(work: () => void): void {
    const start = mainThreadTime();
    work();
    const end = mainThreadTime();
    if (start === null || end === null) this.isKnown = false;
    else this.spent += end - start;
  }
}
