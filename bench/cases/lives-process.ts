// The process that makes and disposes schedulers in a loop.
import { makeDecode } from '../workloads/workloads.js';

/**
 * Makes schedulers, has each take its steps, and disposes it, one after another in this process.
 * Prints a line of JSON: for each the microseconds of every step, and the microseconds of making
 * and disposing it. Arguments: requests, schedulers, steps.
 */

/** One scheduler of the process. */
export interface Lived {
  readonly steps: readonly number[];
  readonly madeIn: number;
  readonly disposedIn: number;
}

function live(size: number, steps: number): Lived {
  const begin = performance.now();
  const { scheduler, step } = makeDecode(size, steps);
  const madeIn = (performance.now() - begin) * 1000;
  const times = Array.from({ length: steps }, () => {
    const start = performance.now();
    step();
    return (performance.now() - start) * 1000;
  });
  const end = performance.now();
  scheduler.dispose();
  return { steps: times, madeIn, disposedIn: (performance.now() - end) * 1000 };
}

const [size, schedulers, steps] = process.argv.slice(2).map(Number);
const all = Array.from({ length: schedulers }, () => live(size, steps));
process.stdout.write(`${JSON.stringify(all)}\n`);
