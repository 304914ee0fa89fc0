import { broken, type Failure, type Outcome, type RunOptions } from '../shared/run.js';
import { drawSetup } from './draw-setup.js';
import type { Fault, Setup } from './setup.js';
import { Simulation } from './simulation.js';

/** What went wrong in one run of the scheduler. */
export type SchedulerFailure = Failure<Setup, Fault>;

/** Runs one seed to its end, or to what breaks first. */
export function runSeed(seed: number, { steps, without }: RunOptions<Fault>): Outcome<Setup, Fault> {
  const setup = drawSetup(seed);
  for (const fault of without) setup.faults[fault] = 0;
  let simulation: Simulation | null = null;
  try {
    simulation = new Simulation(setup);
    simulation.run(steps);
    return { failure: null, tally: simulation.tally() };
  } catch (error) {
    const run = simulation && { step: simulation.step, journal: simulation.world.journal };
    return broken(setup, without, run, error);
  } finally {
    simulation?.world.dispose();
  }
}
