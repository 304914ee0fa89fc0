/**
 * What a decode step of 256 requests costs with a lease connector, beside an engine without one in the same minute: while it
 * is idle; and at work, when 64 leases are granted to a peer that renews them, and 64 requests queue whose leases of the peer
 * are kept alive. The messages of both are counted in.
 *
 *     npx tsc -p bench/tsconfig.json && node build/bench/bench/connectors/lease/step.js
 */
import { LeaseConnector, LeaseWorker, MemoryHub, type Parcel } from '../../../src/connectors/lease/index.js';
import { BlockArena, Engine, type SchedulerConnector } from '../../../src/index.js';
import { NoModel } from './no-model.js';

const RUNNING = 256;
const LEASES = 64;
const OPTIONS = {
  ...{
    numBlocks: 80_000,
    blockSize: 16,
    maxNumSeqs: RUNNING,
    maxNumBatchedTokens: 8192,
    maxModelLen: 16_384,
  },
  enablePrefixCaching: false,
};
const FAR = { doRemoteDecode: true };

const parcels: Parcel[] = [];
const hub = new MemoryHub({ carry: (parcel) => void parcels.push(parcel) });

function deliver(): void {
  for (let i = 0; i < parcels.length; i++) hub.deliver(parcels[i]);
  parcels.length = 0;
}

/** The least that a connector can be. */
const NOTHING: SchedulerConnector = {
  getNumNewMatchedTokens: () => ({ numTokens: 0, async: false }),
  updateStateAfterAlloc: () => {},
  buildMetadata: () => null,
  requestFinished: () => ({ delayFree: false }),
};

/** An engine without a connector, or with one that has this name. */
function serve(name: string | null): Engine {
  const executor = new NoModel();
  if (name === null) return new Engine({ ...OPTIONS, executor });
  const kv = BlockArena.allocate({ numBlocks: OPTIONS.numBlocks, bytesPerBlock: 64 });
  if (name === '')
    return new Engine({ ...OPTIONS, executor, connector: NOTHING, workers: [{ getFinished: () => null }] });
  // A sign of life every 500 ms is ten times as many as by default.
  const connector = new LeaseConnector({ addresses: [name], leaseMs: 3000 });
  const worker = new LeaseWorker({ memory: { kv }, link: hub.link(name) });
  return new Engine({ ...OPTIONS, executor, connector, workers: [worker] });
}

function prompt(seed: number): Int32Array {
  return Int32Array.from({ length: 512 }, (_, i) => (i * 31 + seed * 977) % 50_000);
}

function drain(engine: Engine): void {
  for (let i = 0; i < 20; i++) {
    engine.step();
    deliver();
  }
}

/** Has an engine compute prompts whose KV another one is to read. */
async function offers(engine: Engine, count: number, first: number) {
  const streams = Array.from({ length: count }, (_, i) =>
    engine.submit({ prompt: prompt(first + i), maxTokens: 1, transferParams: FAR }),
  );
  drain(engine);
  return await Promise.all(streams.map(async (stream) => (await stream.result()).transferParams ?? {}));
}

function decode(engine: Engine): void {
  for (let i = 0; i < RUNNING; i++)
    engine
      .submit({ prompt: prompt(10_000 + i), maxTokens: 15_000 })
      .result()
      .catch(() => {});
  for (let i = 0; i < 15; i++) drain(engine);
}

const bare = serve(null);
const least = serve('');
const idle = serve('idle');
const peer = serve('peer');
for (const engine of [bare, least, idle]) decode(engine);
// Leases come first, while the decodes do not fill every place.
const theirs = await offers(peer, LEASES, 0);
const busy = serve('busy');
const ours = await offers(busy, LEASES, 500);
decode(busy);
const queued = (engine: Engine, params: readonly Readonly<Record<string, unknown>>[], first: number) =>
  params.forEach((transferParams, i) => {
    engine
      .submit({ prompt: prompt(first + i), maxTokens: 2, transferParams })
      .result()
      .catch(() => {});
  });
queued(busy, theirs, 0);
decode(peer);
queued(peer, ours, 500);

const subjects: [string, Engine][] = [
  ['without', bare],
  ['a connector that does nothing', least],
  ['idle', idle],
  ['at work', busy],
];
const times = subjects.map((): number[] => []);
const rounds = Number(process.argv[2] ?? 3000);
for (let i = 0; i < rounds; i++) {
  // They take turns in being the first.
  for (let turn = 0; turn < subjects.length; turn++) {
    const which = (i + turn) % subjects.length;
    const [, engine] = subjects[which];
    const before = performance.now();
    engine.step();
    deliver();
    times[which].push((performance.now() - before) * 1000);
  }
  peer.step();
  deliver();
}
const stats = busy.stats().scheduler;
if (
  stats.numRunning !== RUNNING ||
  stats.numDraining !== LEASES ||
  stats.numWaiting + stats.numSkipped < LEASES
)
  throw new Error(`the workload is not what it says: ${JSON.stringify(stats)}`);
const at = (values: number[], share: number) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length * share)];
console.log(
  '| lease connector | p50, µs | p90, µs | p50 over the step without | p90 over the step without |',
);
console.log('| --- | ---: | ---: | ---: | ---: |');
for (const [which, [name]] of subjects.entries()) {
  const own = times[which];
  const [p50, p90] = [at(own, 0.5), at(own, 0.9)];
  const row = [p50, p90, p50 / at(times[0], 0.5), p90 / at(times[0], 0.9)];
  console.log(`| ${name} | ${row.map((value) => value.toFixed(2)).join(' | ')} |`);
}
process.exit(0);
