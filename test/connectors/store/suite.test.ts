import { describe, it } from 'vitest';
import { connectorCases } from '../../../src/testing/index.js';
import { makeStore } from './made.js';

// `npm run test:long -- connectors` has more seeds.
describe('the embedded store conforms to the contract of connectors', () => {
  for (const { name, run } of connectorCases({ make: makeStore, seeds: [1], loads: false }))
    it(name, run, 120_000);
});
