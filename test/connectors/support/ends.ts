/**
 * A program that has an engine with one of the connectors work, ends it, and then must end by itself.
 *
 *     npx tsx test/connectors/support/ends.ts offload|store|lease|multi FOLDER shutdown|dispose
 */
import { join } from 'node:path';
import { LeaseConnector, LeaseWorker, ZmqLink } from '../../../src/connectors/lease/index.js';
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import { offload } from '../../../src/connectors/offload/index.js';
import { StoreConnector, StoreWorker } from '../../../src/connectors/store/index.js';
import { Engine, type EngineOptions, ReferenceExecutor } from '../../../src/index.js';

const [, , kind, folder, ending] = process.argv;
const options = { numBlocks: 64, blockSize: 4, maxNumSeqs: 4, maxModelLen: 128, hashSeed: 7n };
const executor = new ReferenceExecutor(options);
type Sides = Required<Pick<EngineOptions, 'connector' | 'workers'>>;

const offloadSides = (): Sides =>
  offload({
    memory: executor,
    hostBlocks: 64,
    disk: { path: join(folder, 'disk'), model: 'm', maxBytes: 2 ** 24 },
  });

function storeSides(): Sides {
  const store = { path: join(folder, 'kv.slots') };
  const format = { model: 'm', layout: 'l', dtype: 'd', bytesPerBlock: executor.kv.bytesPerBlock };
  const connector = new StoreConnector({ store, format });
  return { connector, workers: [new StoreWorker({ memory: executor, store })] };
}

async function leaseSides(): Promise<Sides> {
  const link = await ZmqLink.open();
  const connector = new LeaseConnector({ addresses: [link.address], leaseMs: 300 });
  return { connector, workers: [new LeaseWorker({ memory: executor, link })] };
}

function multiSides(...parts: Sides[]): Sides {
  const children = parts.map(({ connector }, i) => ({ name: `part ${i}`, connector: connector as never }));
  const workers = parts.map((part) => part.workers[0] as never);
  return {
    connector: new MultiConnector({ children, numRanks: 1 }),
    workers: [new MultiWorker({ children: workers })],
  };
}

const MAKE: Readonly<Record<string, () => Sides | Promise<Sides>>> = {
  offload: offloadSides,
  store: storeSides,
  lease: leaseSides,
  multi: async () => multiSides(await leaseSides(), offloadSides(), storeSides()),
};
const engine = new Engine({ ...options, executor, ...(await MAKE[kind]()), loadFailurePolicy: 'recompute' });
void engine.run();
const prompt = Array.from({ length: 40 }, (_, i) => i % 9);
await engine.submit({ prompt, maxTokens: 12, transferParams: { doRemoteDecode: true } }).result();
const second = engine.submit({ prompt, maxTokens: 60 }).result();
if (ending === 'dispose') {
  engine.dispose();
  await second.catch(() => {});
} else {
  await second;
  await engine.shutdown();
}
console.log('over');
// Says what keeps the process alive, if anything does.
setTimeout(() => {
  console.log(`kept alive by ${process.getActiveResourcesInfo().join(', ')}`);
  process.exit(7);
}, 30_000).unref();
