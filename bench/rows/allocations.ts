import { GCProfiler } from 'node:v8';

/** The allocations of code on the V8 heap. */
export interface Allocations {
  /** Bytes, garbage included. */
  bytes: number;
  /** How often V8 collected garbage meanwhile. */
  collections: number;
}

/**
 * Begins to count what is allocated on the V8 heap. @returns ends the count, and returns the sum
 */
export function countAllocations(): () => Allocations {
  const profiler = new GCProfiler();
  profiler.start();
  const before = process.memoryUsage().heapUsed;
  return () => {
    const after = process.memoryUsage().heapUsed;
    const { statistics } = profiler.stop();
    // Collections do not hide garbage: each says how large the heap was before and after it.
    let bytes = 0;
    let level = before;
    for (const { beforeGC, afterGC } of statistics) {
      bytes += beforeGC.heapStatistics.usedHeapSize - level;
      level = afterGC.heapStatistics.usedHeapSize;
    }
    return { bytes: bytes + after - level, collections: statistics.length };
  };
}

/** The bytes that `times` calls allocate together, garbage included. */
export function allocations(act: () => void, times: number): Allocations {
  globalThis.gc?.();
  const end = countAllocations();
  for (let i = 0; i < times; i++) act();
  return end();
}
