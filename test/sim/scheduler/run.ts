// The simulator as a loop over seeds.
import { Loop } from '../shared/loop.js';
import { drawSetup } from './draw-setup.js';
import { FAULTS } from './setup.js';
import { Simulation } from './simulation.js';

export const SCHEDULER_LOOP = new Loop('scheduler', FAULTS, drawSetup, (setup) => new Simulation(setup));
