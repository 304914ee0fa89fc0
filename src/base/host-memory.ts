import os from 'node:os';
import { BlockstepError, show } from './errors.js';
import { bytes as inWords } from './inspect.js';

/** Bytes of memory that this process can still have: of the machine, or of what the process is confined to. */
export function availableMemory(): number {
  return typeof process.availableMemory === 'function' ? process.availableMemory() : os.freemem();
}

/**
 * Refuses host memory that the machine does not have. Memory of an arena is given only where it is written, so an arena
 * that is too large could be had, and would kill the process later.
 * @param name the option that asks for the memory, with its value, for the message
 * @param bytes the memory that is asked for
 * @throws ERR_BLOCKSTEP_NO_MEMORY
 */
export function checkHostMemory(
  name: string,
  value: unknown,
  bytes: number,
  available = availableMemory(),
): void {
  if (!(bytes > available)) return; // also what is no number, which others refuse
  const message = `${name} ${show(value)} takes ${inWords(bytes)} of host memory, and ${inWords(available)} are available`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}
