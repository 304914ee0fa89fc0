import { describe, it } from 'vitest';
import { connectorCases } from '../../../src/testing/index.js';
import { makeOffload } from './made.js';

// `npm run test:long -- connectors` has more seeds.
describe('the offload conforms to the contract of connectors', () => {
  for (const { name, run } of connectorCases({ make: makeOffload, seeds: [1, 2] })) it(name, run);
});
