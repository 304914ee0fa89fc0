// The conformance suite of connectors: over a store with every fault, and over an embedded one.
import { describe, expect, it } from 'vitest';
import { type ConnectorWorld, connectorCases } from '../../../src/testing/index.js';
import { isQuick, thinned } from '../../support/share.js';
import { makeFaulty } from './faulty.js';
import { makeStore } from './made.js';
import { FaultyServer } from './support/faulty-server.js';

/** How often each fault came, in all runs of these tests. */
const faults: Record<string, number> = {};

function makeCounted(world: ConnectorWorld) {
  const made = makeFaulty(world);
  const { counts } = world.shared.get('server') as FaultyServer;
  const dispose = () => {
    for (const [fault, count] of Object.entries(counts)) faults[fault] = (faults[fault] ?? 0) + count;
  };
  return { ...made, dispose };
}

// `npm run test:long -- connectors` has more seeds.
describe('a store with every fault conforms to the contract of connectors', () => {
  const cases = connectorCases({ make: makeCounted, seeds: [1, 2, 3] });
  for (const { name, run } of thinned(cases, 1, 2, 6)) it(name, run, 120_000);

  it.skipIf(isQuick)('and every fault was there', () => {
    for (const fault of FaultyServer.FAULTS) expect(faults[fault], fault).toBeGreaterThan(3);
  });
});

/** Cases that look at different things. */
const FEW = [
  'an ordinary life gives the tokens that it gives without a connector',
  'everything at once',
  'two engines',
];

// The threads and the file of a store: `npm run test:long -- connectors` has all cases.
describe('the embedded store conforms to the contract of connectors', () => {
  const cases = connectorCases({ make: makeStore, only: FEW, seeds: [1], loads: false });
  for (const { name, run } of thinned(cases, 1)) it(name, run, 120_000);
});
