// The conformance suite over several connectors; offload, lease and store in every order.
import { describe, it } from 'vitest';
import { connectorCases, type MakeConnector } from '../../../src/testing/index.js';
import { thinned } from '../../support/share.js';
import { makeHostTier } from '../../testing/host-tier.js';
import { makeMemo } from '../../testing/memo.js';
import { makeLease } from '../lease/made.js';
import { makeOffload } from '../offload/made.js';
import { makeFaulty } from '../store/faulty.js';
import { combine } from './combine.js';

describe('a Multi of a single connector is that connector', () => {
  const cases = connectorCases({ make: combine({ tier: makeHostTier }), seeds: [1] });
  for (const { name, run } of thinned(cases, 1)) it(name, run);
});

describe('small connectors together give the tokens that none gives', () => {
  const make = combine({ memo: makeMemo, tier: makeHostTier, offload: makeOffload });
  for (const { name, run } of thinned(connectorCases({ make, seeds: [2] }), 1, 1)) it(name, run);
});

/** A few cases for a few orders: all cases for every order are `npm run test:long -- connectors`. */
const FEW = ['everything at once', 'two engines'];
const ORDERS = [
  ['offload', 'lease', 'store'],
  ['store', 'lease', 'offload'],
  ['lease', 'offload'],
  ['offload', 'store'],
];

describe('offload, lease and store together give the tokens that none gives', () => {
  const parts: Readonly<Record<string, MakeConnector>> = {
    offload: makeOffload,
    lease: makeLease,
    store: makeFaulty,
  };
  // Each order has another depth of the pipeline, and another number of ranks, than the one before.
  for (const [i, order] of ORDERS.entries()) {
    const make = combine(Object.fromEntries(order.map((name) => [name, parts[name]])));
    describe(order.join(', '), () => {
      const cases = connectorCases({ make, only: FEW, seeds: [2 + i], loads: false });
      for (const { name, run } of thinned(cases, 1, i, 2)) it(name, run, 120_000);
    });
  }
});
