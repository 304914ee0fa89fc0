import { broken, type Outcome, type RunOptions } from '../shared/run.js';
import { PipelineLife } from './life.js';
import { drawPipelineSetup, type PipelineFault, type PipelineSetup } from './setup.js';

/** Runs one seed to its end, or to what breaks first. */
export async function runPipelineSeed(
  seed: number,
  { steps, without }: RunOptions<PipelineFault>,
): Promise<Outcome<PipelineSetup, PipelineFault>> {
  const setup = drawPipelineSetup(seed);
  for (const fault of without) setup.faults[fault] = 0;
  let life: PipelineLife | null = null;
  try {
    life = new PipelineLife(setup);
    await life.run(steps);
    return { failure: null, tally: life.world.tally };
  } catch (error) {
    const run = life && { step: life.step, journal: life.world.journal };
    return broken(setup, without, run, error);
  } finally {
    life?.dispose();
  }
}
