import { describe, it } from 'vitest';
import { connectorCases } from '../../../src/testing/index.js';
import { makeOffload } from './made.js';

// `npm run test:long -- connectors` has more seeds.
describe('the offload conforms to the contract of connectors', () => {
  for (const { name, run } of connectorCases({ make: makeOffload, seeds: [1, 2] })) it(name, run);

  // A load fails whose request had a local prefix: what that prefix needs in front of it is not in the rows any more.
  const only = ['groups: chunks, and everything at once'];
  for (const { name, run } of connectorCases({ make: makeOffload, seeds: [6], only }))
    it(`${name}, again`, run);
});
