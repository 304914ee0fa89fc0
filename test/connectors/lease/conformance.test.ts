import { describe, it } from 'vitest';
import { connectorCases } from '../../../src/testing/index.js';
import { makeLease } from './made.js';

// `npm run test:long -- connectors` has more seeds.
describe('the lease conforms to the contract of connectors', () => {
  const cases = [true, false].flatMap((loads) =>
    // An engine alone has nobody to load from: its leases end.
    connectorCases({ make: makeLease, seeds: [1], loads }).filter(
      ({ numEngines }) => numEngines > 1 === loads,
    ),
  );
  for (const { name, run } of cases) it(name, run);
});
