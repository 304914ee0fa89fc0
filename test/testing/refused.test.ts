// The sides of a refused engine in the suite.
import { expect, it } from 'vitest';
import { connectorCases } from '../../src/testing/index.js';
import { makeMemo } from './memo.js';

it('both sides of an engine that a connector refuses are shut down', async () => {
  let numOpen = 0;
  let numRefused = 0;
  const [first] = connectorCases({
    loads: false,
    only: ['clients go away in every state'],
    make: (world) => {
      const under = makeMemo(world);
      for (const side of [under.connector, ...under.workers]) {
        numOpen++;
        const shutdown = side.shutdown?.bind(side);
        let isOpen = true;
        side.shutdown = () => {
          if (isOpen) numOpen--;
          isOpen = false;
          shutdown?.();
        };
      }
      under.connector.bind = () => {
        numRefused++;
        throw new Error('it needs enablePrefixCaching');
      };
      return under;
    },
  });
  await first.run().catch(() => {});
  expect([numRefused > 0, numOpen]).toEqual([true, 0]);
});
