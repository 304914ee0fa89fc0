import { broken, type Outcome, type RunOptions } from '../shared/run.js';
import { drawEngineSetup } from './draw-setup.js';
import { EngineLife } from './life.js';
import type { EngineFault, EngineSetup } from './setup.js';

/** Runs one seed to its end, or to what breaks first. */
export async function runEngineSeed(
  seed: number,
  { steps, without }: RunOptions<EngineFault>,
): Promise<Outcome<EngineSetup, EngineFault>> {
  const setup = drawEngineSetup(seed);
  for (const fault of without) setup.faults[fault] = 0;
  let life: EngineLife | null = null;
  try {
    life = new EngineLife(setup);
    await life.run(steps);
    return { failure: null, tally: life.stage.tally };
  } catch (error) {
    const run = life && { step: life.step, journal: life.stage.journal };
    return broken(setup, without, run, error);
  } finally {
    life?.dispose();
  }
}
