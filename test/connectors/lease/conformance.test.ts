// Leases pass the conformance suite, two engines and more.
import { describe, it } from 'vitest';
import { type ConnectorUnderTest, type ConnectorWorld, connectorCases } from '../../../src/testing/index.js';
import { isQuick, thinned } from '../../support/share.js';
import { makeLease } from './made.js';

// `npm run test:long -- connectors` has more seeds.
describe('the lease conforms to the contract of connectors', () => {
  const cases = [true, false].flatMap((loads) =>
    // An engine alone has nobody to load from: its leases end.
    connectorCases({ make: makeLease, seeds: [1], loads }).filter(
      ({ numEngines }) => numEngines > 1 === loads,
    ),
  );
  for (const { name, run } of thinned(cases, 1, 1)) it(name, run);

  it.skipIf(isQuick)(
    'groups: a client that leaves out how few tokens suffice gets a refused load, and no foreign block',
    async () => {
      const make = (world: ConnectorWorld): ConnectorUnderTest => {
        const made = makeLease(world);
        const { connector } = made;
        const finish = connector.requestFinished.bind(connector);
        connector.requestFinished = (request, reason, handOver) => {
          const answer = finish(request, reason, handOver);
          const extents = (answer.transferParams?.['extents'] ?? []) as { from?: number }[];
          for (const extent of extents) Reflect.deleteProperty(extent, 'from');
          return answer;
        };
        return { ...made, losesKv: true };
      };
      for (const { run } of connectorCases({ make, only: ['groups: two engines, and slow copies'] }))
        await run();
    },
  );
});
