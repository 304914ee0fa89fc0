// The simulator as a loop over seeds.
import { Loop } from '../shared/loop.js';
import { drawEngineSetup } from './draw-setup.js';
import { EngineLife } from './life.js';
import { ENGINE_FAULTS } from './setup.js';

export const ENGINE_LOOP = new Loop(
  'engine',
  ENGINE_FAULTS,
  drawEngineSetup,
  (setup) => new EngineLife(setup),
);
