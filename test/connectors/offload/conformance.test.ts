// The conformance suite over an offload.
import { describe, it } from 'vitest';
import { connectorCases } from '../../../src/testing/index.js';
import { share } from '../../support/share.js';
import { makeOffload, makeOffloadOfLanes } from './made.js';

// `npm run test:long -- connectors` has more seeds.
describe('the offload conforms to the contract of connectors', () => {
  // With the single seed of a quick run, every case loads something.
  const cases = connectorCases({ make: makeOffload, seeds: share([4], [1, 2, 4]) });
  for (const { name, run } of cases) it(name, run);

  // A load fails whose request had a local prefix. The blocks that this prefix needs in front of it
  // are not in the rows any more.
  const only = ['groups: chunks, and everything at once'];
  for (const { name, run } of connectorCases({ make: makeOffload, seeds: [6], only }))
    it(`${name}, again`, run);
});

describe('so does one over KV memory that makes its own lanes', () => {
  const cases = connectorCases({ make: makeOffloadOfLanes, seeds: share([3], [1], [1, 2, 4]) });
  for (const { name, run } of cases.filter((_, i) => i % share(4, 1) === 0)) it(name, run);
});
