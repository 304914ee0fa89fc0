import { freemem } from 'node:os';

/** The share of free memory that a model takes unless it is told otherwise: what is estimated may be a little less than what is needed. */
const SHARE = 0.9;

/** Bytes that a model may take of this machine's memory, or of what a container allows. */
export function freeHostMemory(): number {
  // Node 20.13 and newer know what is available, the limit of a container included.
  const { availableMemory } = process as { availableMemory?: () => number };
  return SHARE * (availableMemory?.() ?? freemem());
}

/** The same of GPUs. @param devices with what was free on them before anything was loaded; bytes */
export function freeDeviceMemory(devices: readonly { readonly freeBytes: number }[]): number {
  return SHARE * devices.reduce((sum, { freeBytes }) => sum + freeBytes, 0);
}
