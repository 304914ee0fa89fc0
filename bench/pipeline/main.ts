/**
 * The cost of pipelines: `npm run bench:pipeline`. It needs `redis-server`; everything ran in the same minutes, the sides of a
 * comparison by turns.
 */
import { MemoryTransport } from '../../src/pipeline/index.js';
import { RedisTransport } from '../../src/pipeline/redis/index.js';
import { printTable } from '../connectors/support/table.js';
import { describeMachine, readMachine } from '../machine.js';
import { answerHelp } from '../usage.js';
import { withRedis } from './server.js';
import { engineAlone, engineRead, type Flow, measureFlow, stages } from './stages.js';
import { byBareClient, byTransport, type Carried, measure, sizeOfMessage } from './transports.js';

answerHelp('npm run bench:pipeline: chunks through transports and stages');

const ROUNDS = 5;
const CHUNKS = 20_000;
const REQUESTS = 256;

/**
 * The best of all rounds, for each figure: other programs of the machine can only slow a round
 * down.
 */
async function best<Figures extends object>(
  sides: Readonly<Record<string, () => Promise<Figures>>>,
  isMore: (name: string) => boolean,
): Promise<Record<string, Record<string, number>>> {
  const found: Record<string, Record<string, number>> = {};
  for (let round = 0; round < ROUNDS; round++) {
    for (const [side, run] of Object.entries(sides)) {
      const figures = (await run()) as Record<string, number>;
      found[side] ??= { ...figures };
      for (const [name, value] of Object.entries(figures))
        found[side][name] = (isMore(name) ? Math.max : Math.min)(found[side][name], value);
    }
  }
  return found;
}

const isMore = (name: string): boolean => name.endsWith('PerSecond') || name === 'perSecond';
console.log(`${describeMachine(readMachine())}\n`);

await withRedis(async (url) => {
  const redis = (): Promise<RedisTransport> => RedisTransport.open({ url });
  const carried = await best<Carried>(
    {
      MemoryTransport: () =>
        measure(
          byTransport(async () => new MemoryTransport()),
          10 * CHUNKS,
        ),
      RedisTransport: () => measure(byTransport(redis), CHUNKS),
      'XADD and XREADGROUP by iovalkey': () => measure(byBareClient(url), CHUNKS),
    },
    isMore,
  );
  const head = ['16 tokens a chunk', 'chunks/s', 'one alone, µs'];
  const number = (value: number, digits = 0): string =>
    value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const rows = Object.entries(carried).map(([side, { perSecond, aloneUs }]) => [
    ...[side, number(perSecond), number(aloneUs, 1)],
  ]);
  printTable(head, rows, `Chunks of ${await sizeOfMessage()} bytes through transports`);

  const flows = await best<Flow>(
    {
      'one engine alone': () => measureFlow(engineAlone(), REQUESTS),
      'one engine, read as it computes': () => measureFlow(engineRead(), REQUESTS),
      'one stage': () => measureFlow(stages(1), REQUESTS),
      'three stages': () => measureFlow(stages(3), REQUESTS),
      'three stages over Redis': async () => measureFlow(stages(3, await redis()), REQUESTS),
    },
    isMore,
  );
  const through = Object.entries(flows).map(([side, { tokensPerSecond, aloneMs }]) => [
    ...[side, number(tokensPerSecond), number(aloneMs, 2)],
  ]);
  printTable(
    ['64 requests at a time', 'tokens/s at the end', 'one chunk alone, ms'],
    through,
    'Through stages',
  );
});
