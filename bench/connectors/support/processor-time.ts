import { readFileSync } from 'node:fs';
import { sleep } from './decodes.js';

/**
 * Microseconds for which the main thread of this process has run on a processor, without other threads; null where the
 * system does not say. Linux brings the number up to date when the thread sleeps, so this sleeps first.
 */
export function mainThreadTime(): number | null {
  sleep(1);
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]) / 1000;
  } catch {
    return null;
  }
}
