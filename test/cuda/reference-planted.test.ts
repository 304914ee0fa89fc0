// The reference executor on a GPU finds every kind of planted error.
import '../support/gpu.js';
import { describePlants } from '../executors/reference/plants.js';

// As many places as the suite of the host tries (BLOCKSTEP_PLACES=120) take half an hour on an emulated GPU.
describePlants({ device: 'cuda' }, Number(process.env['BLOCKSTEP_PLACES'] ?? 1));
