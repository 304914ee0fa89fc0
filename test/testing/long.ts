// The suite over every connector, thousands of seeds: `npm run test:long -- connectors`.
import { parseArgs } from 'node:util';
import { type ConnectorCase, connectorCases, type MakeConnector } from '../../src/testing/index.js';
import { makeLease } from '../connectors/lease/made.js';
import { combine } from '../connectors/multi/combine.js';
import { makeOffload } from '../connectors/offload/made.js';
import { makeFaulty } from '../connectors/store/faulty.js';
import { makeStore } from '../connectors/store/made.js';
import { makeHostTier } from './host-tier.js';
import { makeMemo } from './memo.js';

/** The connectors, and how many seeds of each case make one share of the work: those with threads of their own take longer. */
const CONNECTORS: Readonly<Record<string, MakeConnector>> = {
  memo: makeMemo,
  tier: makeHostTier,
  offload: makeOffload,
  lease: makeLease,
  store: makeStore,
  faulty: makeFaulty,
  ...inEveryOrder({ lease: makeLease, offload: makeOffload, store: makeStore }),
};

/** Several of these together, in every order, by the names of the parts. */
function inEveryOrder(parts: Readonly<Record<string, MakeConnector>>): Record<string, MakeConnector> {
  const orders = ordersOf(Object.keys(parts)).filter((order) => order.length > 1);
  return Object.fromEntries(
    orders.map((order) => [
      order.join('+'),
      combine(Object.fromEntries(order.map((name) => [name, parts[name] as MakeConnector]))),
    ]),
  );
}

/** Every subset of the names, in every order. */
function ordersOf(names: readonly string[]): string[][] {
  const longer = names.flatMap((name) =>
    ordersOf(names.filter((other) => other !== name)).map((rest) => [name, ...rest]),
  );
  return [[], ...longer];
}

const USAGE = `npm run test:long -- connectors [options]
The conformance suite over every connector, case by case and seed by seed. Stops at the first failure.
  --seeds N      seeds of each case, default 1,000
  --first S      the first seed, default 1
  --progress     say on standard error which seed of which connector begins
  --connector C  one of ${Object.keys(CONNECTORS).join(', ')}; default: all`;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    first: { type: 'string', default: '1' },
    connector: { type: 'string' },
    progress: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const { connector } = values;
if (connector !== undefined && !Object.hasOwn(CONNECTORS, connector)) {
  console.error(`there is no connector ${JSON.stringify(connector)}\n${USAGE}`);
  process.exit(2);
}
const first = Number(values.first);
let numRuns = 0;
for (let seed = first; seed < first + Number(values.seeds); seed++) {
  for (const [name, make] of Object.entries(CONNECTORS)) {
    if (connector !== undefined && name !== connector) continue;
    // A crash of native code says nothing of its own: the last line says where it was.
    if (values.progress) process.stderr.write(`seed ${seed}: ${name}\n`);
    // One seed alone may have nothing to load; the suites of the connectors look after that.
    const cases: ConnectorCase[] = connectorCases({ make, seeds: [seed], loads: false });
    for (const each of cases) {
      try {
        await each.run();
        numRuns++;
      } catch (error) {
        console.error(`${name}: ${(error as Error).message}`);
        process.exit(1);
      }
    }
  }
}
console.log(`${numRuns} runs, and nothing was found`);
