// A subscriber in Python, which knows only vLLM's formats.
import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { KvEventPublisher, type KvEventPublisherOptions } from '../../src/kv-events/index.js';
import { driveRandomly, engineHashes, smallEngine } from './random-engine.js';

const SUBSCRIBER = fileURLToPath(new URL('../../examples/kv_events_subscriber.py', import.meta.url));
const PYTHONS = ['python3', '/usr/bin/python3'];
const PYTHON = PYTHONS.find((path) => spawnSync(path, ['-c', 'import zmq, msgpack']).status === 0);
const WHY_SKIPPED = 'skipped: no Python with pyzmq and msgpack; install python3-zmq and python3-msgpack';
if (PYTHON === undefined) console.log(WHY_SKIPPED);

const run = promisify(execFile);

describe('a subscriber in Python', () => {
  it.skipIf(PYTHON === undefined).each<KvEventPublisherOptions>([
    { eventFormat: 'map', hashFormat: 'bytes' },
    { eventFormat: 'array', hashFormat: 'int' },
  ])('knows the index of the core, with every fifth message lost: %o', async (options) => {
    const addresses = { endpoint: 'tcp://127.0.0.1:*', replayEndpoint: 'tcp://127.0.0.1:*' };
    const publisher = await KvEventPublisher.open({ ...addresses, ...options });
    onTestFinished(() => publisher.close());
    const engine = smallEngine(publisher);
    onTestFinished(() => engine.dispose());
    await driveRandomly(engine, 300, 1);
    const { events, replay } = publisher.endpoints;
    // Batches that come while it listens are received; lost and earlier batches are replayed.
    const until = publisher.stats().batches + 200;
    const subscriber = run(PYTHON as string, [
      SUBSCRIBER,
      events,
      replay as string,
      '--until',
      `${until}`,
      '--lose',
      '5',
    ]);
    subscriber.child.stdout?.once('data', () => void keepGoing());
    let expected: string[] = [];
    const keepGoing = async (): Promise<void> => {
      for (let seed = 2; publisher.stats().batches <= until; seed++) {
        await driveRandomly(engine, 1, seed);
        if (publisher.stats().batches === until + 1) expected = engineHashes(engine);
      }
    };
    const { stdout } = await subscriber;
    const known = JSON.parse(stdout.split('\n').at(-1) as string) as { GPU: string[] };
    const asText = (hash: string): string =>
      options.hashFormat === 'int' ? BigInt(`0x${hash.slice(16)}`).toString() : hash;
    expect(known.GPU.length).toBeGreaterThan(5);
    expect(known.GPU).toEqual(expected.map(asText).sort());
    expect(publisher.stats().replays).toBeGreaterThan(0);
  });
});
