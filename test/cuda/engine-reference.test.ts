// Texts through an engine are right, with KV data and tables on a GPU.
import '../support/gpu.js';
import { describe } from 'vitest';
import { itGivesTheTextsOfRequestsAlone } from '../executors/reference/engine-texts.js';

describe('texts through the engine, over KV data and tables on a GPU', () => {
  itGivesTheTextsOfRequestsAlone({ device: 'cuda' });
});
