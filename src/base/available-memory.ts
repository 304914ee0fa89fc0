import { BlockstepError } from './errors.js';
import { bytes } from './inspect.js';

/**
 * Refuses memory that the machine, or the container that this process runs in, does not have. Call it before memory is
 * taken page by page: a page that cannot be had ends the process, and says nothing.
 * @param numBytes how much is wanted
 * @param what who wants it, for the message
 * @throws ERR_BLOCKSTEP_NO_MEMORY naming both amounts
 */
export function checkAvailable(numBytes: number, what: string): void {
  const available = process.availableMemory();
  if (!(numBytes > available)) return; // also what is no number, which others refuse
  const message = `${what} needs ${bytes(numBytes)}, and ${bytes(available)} of memory are available`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}
