import { describe, it } from 'vitest';
import { connectorCases } from '../../../src/testing/index.js';
import { makeStore } from './made.js';

/** Cases that look at different things. */
const FEW = [
  'an ordinary life gives the tokens that it gives without a connector',
  'the pool is so small that requests are preempted',
  'clients go away in every state',
  'sessions',
  'caches are reset',
  'copies fail, and are recomputed',
  'reports are lost',
  'everything at once',
  'the engine is disposed while everything is under way',
  'two engines',
];

// `npm run test:long -- connectors` has all cases, and more seeds.
describe('the embedded store conforms to the contract of connectors', () => {
  for (const { name, run } of connectorCases({ make: makeStore, only: FEW, seeds: [1], loads: false }))
    it(name, run, 120_000);
});
