import { describePlants } from './plants.js';

describePlants({});
