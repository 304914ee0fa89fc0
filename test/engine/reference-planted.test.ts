import { describePlants } from './reference-plants.js';

describePlants({});
