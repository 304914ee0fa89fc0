import { SeededRun } from '../shared/seeded-run.js';
import type { PipelineFault, PipelineSetup } from './setup.js';

/** Common data of all parts of one run. */
export class World extends SeededRun<PipelineSetup, PipelineFault> {
  /** Since when there are no faults any more, in milliseconds. */
  calmAt = Number.POSITIVE_INFINITY;

  constructor(setup: PipelineSetup) {
    super(setup, 'pipeline ');
  }
}
