// The simulator as a loop over seeds.
import { Loop } from '../shared/loop.js';
import { PipelineLife } from './life.js';
import { drawPipelineSetup, PIPELINE_FAULTS } from './setup.js';

export const PIPELINE_LOOP = new Loop(
  'pipeline',
  PIPELINE_FAULTS,
  drawPipelineSetup,
  (setup) => new PipelineLife(setup),
);
