// The reference executor finds each planted error in its step.
import { describePlants } from './plants.js';

describePlants({});
