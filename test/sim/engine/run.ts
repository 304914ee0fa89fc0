import { Violation } from '../audit/facts.js';
import type { Failure } from '../run.js';
import type { Tally } from '../scheduler/simulation.js';
import { EngineLife } from './life.js';
import { drawEngineSetup, type EngineFault, type EngineSetup } from './setup.js';

export interface EngineRunOptions {
  /** Events with faults. */
  steps: number;
  /** Kinds of faults that are left out. */
  without: readonly EngineFault[];
}

/** What went wrong in one run. */
export type EngineFailure = Failure<EngineSetup, EngineFault>;

/** Runs one seed to its end, or to what breaks first. */
export async function runEngineSeed(
  seed: number,
  { steps, without }: EngineRunOptions,
): Promise<{ failure: EngineFailure | null; tally: Tally }> {
  const setup = drawEngineSetup(seed);
  for (const fault of without) setup.faults[fault] = 0;
  let life: EngineLife | null = null;
  try {
    life = new EngineLife(setup);
    await life.run(steps);
    return { failure: null, tally: life.stage.tally };
  } catch (error) {
    const isViolation = error instanceof Violation;
    const failure: EngineFailure = {
      seed,
      step: life?.step ?? 0,
      invariant: isViolation ? error.invariant : 'simulator',
      message: isViolation ? error.message : String((error as Error).stack),
      journal: life?.stage.journal ?? [],
      setup,
      without,
    };
    return { failure, tally: {} };
  } finally {
    life?.dispose();
  }
}
