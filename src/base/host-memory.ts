// Refuses host memory that the machine does not have.
import os from 'node:os';
import { BlockstepError, show } from './errors.js';
import { bytes as inWords } from './inspect.js';

/**
 * Bytes of memory that are still available to this process, on the machine or within the limit of a
 * container.
 */
export function availableMemory(): number {
  return typeof process.availableMemory === 'function' ? process.availableMemory() : os.freemem();
}

/**
 * Refuses host memory that the machine does not have. The memory of an arena is granted only where
 * it is written. An arena that is too large could therefore be allocated, and would kill the
 * process later.
 * @param name the option that asks for the memory, with its value, for the message
 * @param bytes the requested memory
 * @throws ERR_BLOCKSTEP_NO_MEMORY
 */
export function checkHostMemory(
  name: string,
  value: unknown,
  bytes: number,
  available = availableMemory(),
): void {
  if (!(bytes > available)) return; // also for a value that is no number, which other checks refuse
  const message = `${name} ${show(value)} takes ${inWords(bytes)} of host memory, and ${inWords(available)} are available`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}
