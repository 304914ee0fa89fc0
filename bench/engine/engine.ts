// Steps of an engine beside those of its bare scheduler.
import { allocations } from '../rows/allocations.js';
import { type Effort, measure } from '../rows/measure.js';
import { type Latency, type Row, timeRow } from '../rows/row.js';
import { makeDecode } from '../workloads/workloads.js';
import { benchStreams } from './engine-streams.js';
import { makeEngine } from './engine-workloads.js';

/** Fewer samples than for a scheduler alone, because every row is measured in several rounds. */
export const ENGINE_EFFORT: Effort = { samples: 2000, warmup: 800 };

const SIZES = [1, 64, 256, 1024];
const ROUNDS = 3;
const WARMUP = 2000;
const HEAP_STEPS = 2000;

/**
 * The cost that the engine adds to its scheduler, with an executor that answers at once and
 * computes nothing.
 *
 * Steps are `Engine.step()` of N decodes that nobody reads, beside steps of the bare scheduler. The two take turns for three rounds,
 * and the round with the best median counts. Everything else runs by `engine.run()`, one step per turn of the event loop, with one
 * reader per stream in a `for await`.
 */
export async function benchEngine(effort: Effort, repeats: number): Promise<Row[]> {
  return [
    ...SIZES.flatMap((size) => stepRows(size, effort)),
    ...heapRows(),
    ...(await benchStreams(repeats)),
  ];
}

function stepRows(size: number, effort: Effort): Row[] {
  const bare: Latency[] = [];
  const engine: Latency[] = [];
  const gathering: Latency[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    bare.push(bareStep(size, effort));
    engine.push(engineStep(size, effort, false));
    gathering.push(engineStep(size, effort, true));
  }
  const [ofBare, ofEngine, ofGathering] = [bare, engine, gathering].map(best);
  return [
    timeRow('engine', `bare scheduler, ${size}`, ofBare, size),
    timeRow('engine', `step, ${size}`, ofEngine, size),
    timeRow('engine', `step with tables, ${size}`, ofGathering, size),
    ratio(`step over bare scheduler, ${size}`, ofEngine.p50 / ofBare.p50, size),
    ratio(`step over bare scheduler, fastest samples, ${size}`, ofEngine.min / ofBare.min, size),
  ];
}

function bareStep(size: number, effort: Effort): Latency {
  const { scheduler, step } = makeDecode(size, effort.samples + effort.warmup + 2);
  const latency = measure({ run: step }, effort);
  scheduler.dispose();
  return latency;
}

function engineStep(size: number, effort: Effort, usesTables: boolean): Latency {
  const numSteps = effort.samples + effort.warmup + 2;
  const { engine, submit } = makeEngine(size, numSteps, usesTables);
  for (let i = 0; i < size; i++) submit(numSteps);
  engine.step();
  const latency = measure({ run: () => void engine.step() }, effort);
  if (engine.numRunning !== size) throw new Error(`engine step, ${size} is not what it says`);
  engine.dispose();
  return latency;
}

function best(latencies: readonly Latency[]): Latency {
  return latencies.reduce((a, b) => (b.p50 < a.p50 ? b : a));
}

function ratio(name: string, value: number, requests: number): Row {
  return { group: 'engine', name, unit: 'ratio', value, requests };
}

/** Bytes that a step allocates on the V8 heap while nobody reads, and the share of each request. */
function heapRows(): Row[] {
  const bytes = [64, 1024].map((size) => {
    const { engine, submit } = makeEngine(size, WARMUP + HEAP_STEPS + 2);
    for (let i = 0; i < size; i++) submit(WARMUP + HEAP_STEPS + 2);
    for (let i = 0; i < WARMUP; i++) engine.step();
    const loop = allocations(() => undefined, HEAP_STEPS).bytes;
    const all = allocations(() => engine.step(), HEAP_STEPS).bytes;
    engine.dispose();
    return (all - loop) / HEAP_STEPS;
  });
  const [small, large] = bytes;
  return [
    { group: 'engine', name: 'heap of a step of 64', unit: 'bytes', value: small, requests: 64 },
    { group: 'engine', name: 'heap of a step of 1,024', unit: 'bytes', value: large, requests: 1024 },
    {
      group: 'engine',
      name: 'heap of a step, per request',
      unit: 'bytes',
      value: (large - small) / (1024 - 64),
    },
  ];
}
