// One process: every step timed, with the work of the system and V8 meanwhile.
import { PerformanceObserver } from 'node:perf_hooks';
import { bareLoop } from '../cases/calibration.js';
import { countAllocations } from '../rows/allocations.js';
import { Mixed } from '../workloads/mixed.js';
import { makeDecode } from '../workloads/workloads.js';
import { Cause, type Life, type TailCase } from './life-result.js';

/**
 * One life of a workload in a process of its own: every step is timed, and beside it what the system and V8 did meanwhile.
 * Prints a line of JSON (`Life`). Arguments: the case, and the steps that count.
 */

/**
 * Steps before the first that counts. Functions that are called once a step are compiled after some
 * 3,000 steps.
 */
const WARM_UP = 4000;
/** Steps in a row, before as many turns of the bare loop. */
const SHARE = 50;

interface Workload {
  /** One step. Returns what the scheduler took, in milliseconds. */
  step(): number;
  /** The size of the step's work, for readers. */
  about(): number;
}

function decode(size: number, steps: number): Workload {
  const { step } = makeDecode(size, steps + WARM_UP + 2);
  // The first prompt has 512 tokens, and the step that computed it gave one more.
  let tokens = 513;
  return {
    step: () => {
      tokens++;
      const start = performance.now();
      step();
      return performance.now() - start;
    },
    about: () => tokens,
  };
}

function mixed(): Workload {
  const workload = new Mixed();
  const halves = { schedule: 0, update: 0 };
  return {
    step: () => {
      workload.refill();
      return workload.step(halves);
    },
    about: () => workload.scheduled,
  };
}

async function live(name: TailCase, steps: number): Promise<Life> {
  const workload = name === 'mixed-256' ? mixed() : decode(Number(name.slice('decode-'.length)), steps);
  const loop = bareLoop();
  const times = new Float64Array(steps);
  const starts = new Float64Array(steps);
  const abouts = new Int32Array(steps);
  const causes = new Uint8Array(steps);
  const bare = new Float64Array(steps);
  const collections: { startTime: number; duration: number }[] = [];
  const observer = new PerformanceObserver((list) => collections.push(...list.getEntries()));
  observer.observe({ entryTypes: ['gc'] });
  for (let i = 0; i < WARM_UP; i++) {
    workload.step();
    loop();
  }
  globalThis.gc?.();
  const began = performance.now();
  const endCount = countAllocations();
  for (let from = 0; from < steps; from += SHARE) {
    const to = Math.min(steps, from + SHARE);
    let before = process.resourceUsage();
    for (let i = from; i < to; i++) {
      starts[i] = performance.now();
      times[i] = workload.step() * 1000;
      const after = process.resourceUsage();
      if (after.minorPageFault + after.majorPageFault > before.minorPageFault + before.majorPageFault)
        causes[i] |= Cause.fault;
      if (after.involuntaryContextSwitches > before.involuntaryContextSwitches) causes[i] |= Cause.preempted;
      abouts[i] = workload.about();
      before = after;
    }
    for (let i = from; i < to; i++) {
      const start = performance.now();
      loop();
      bare[i] = (performance.now() - start) * 1000;
    }
  }
  const { bytes } = endCount();
  // V8 reports its collections when the event loop turns.
  await new Promise((resolve) => setTimeout(resolve, 20));
  observer.disconnect();
  const counted = collections.filter(({ startTime }) => startTime >= began);
  for (const { startTime, duration } of counted)
    for (let i = 0; i < steps; i++)
      if (starts[i] <= startTime + duration && startTime <= starts[i] + times[i] / 1000)
        causes[i] |= Cause.gc;
  const lists = { times: [...times], bare: [...bare], abouts: [...abouts], causes: [...causes] };
  return { ...lists, collections: counted.length, bytesPerStep: bytes / steps };
}

const [name, steps] = process.argv.slice(2);
const life = await live(name as TailCase, Number(steps));
process.stdout.write(`${JSON.stringify(life)}\n`, () => process.exit(0));
