// How much memory a model may take.
import { freemem } from 'node:os';

/**
 * Default fraction of the free memory for a model. The estimate of its needs may be slightly too
 * low.
 */
const SHARE = 0.9;

/** Bytes of memory for a model on this machine, or in this container. */
export function freeHostMemory(): number {
  // Node 20.13 and newer know the available memory, including a container's limit.
  const { availableMemory } = process as { availableMemory?: () => number };
  return SHARE * (availableMemory?.() ?? freemem());
}

/**
 * Bytes of memory for a model on GPUs.
 * @param devices with their free bytes before anything was loaded
 */
export function freeDeviceMemory(devices: readonly { readonly freeBytes: number }[]): number {
  return SHARE * devices.reduce((sum, { freeBytes }) => sum + freeBytes, 0);
}
