/**
 * The cost of a block store: `npm run bench:store`. Prints tables; everything in one table ran in the same minute. It needs
 * `redis-server` and `redis-benchmark` for the rows of Redis.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeMachine, readMachine } from '../../machine.js';
import { printTable } from '../support/table.js';
import { type LoopDelay, loopDelays } from './loop-delay.js';
import { PIPELINE, rawFile, redisBenchmark, type Throughput, throughThread } from './throughput.js';

const SIZES = [2 ** 18, 2 ** 21];
const MIB = 2 ** 20;
const ROUNDS = 3;

const folder = mkdtempSync(join(tmpdir(), 'blockstep-bench-store-'));
const only = process.argv[2] ?? '';

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

async function withRedis(act: (port: number) => Promise<void>): Promise<void> {
  const port = await freePort();
  const server = spawn('redis-server', ['--port', `${port}`, '--save', '', '--dir', folder], {
    stdio: 'ignore',
  });
  try {
    for (let isUp = false; !isUp; ) {
      isUp = await new Promise((resolve) => {
        const connection = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
        connection.unref();
      });
    }
    await act(port);
  } finally {
    server.kill('SIGKILL');
  }
}

/**
 * Runs sides in turns, and takes the best round of each: other programs of the machine can only
 * slow a round down.
 */
async function bestOf(
  ...sides: readonly (() => Throughput | Promise<Throughput>)[]
): Promise<readonly Throughput[]> {
  const best = sides.map(() => ({ put: 0, get: 0 }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, side] of sides.entries()) {
      const { put, get } = await side();
      best[i] = { put: Math.max(put, best[i].put), get: Math.max(get, best[i].get) };
    }
  }
  return best;
}

function rowOf(name: string, ours: Throughput, raw: Throughput): string[] {
  const share = (kind: keyof Throughput): string => (ours[kind] / raw[kind]).toFixed(2);
  const figure = (kind: keyof Throughput): string[] => [
    ours[kind].toFixed(0),
    raw[kind].toFixed(0),
    share(kind),
  ];
  return [name, ...figure('put'), ...figure('get')];
}

const HEAD = ['blocks of', 'put', 'alone', 'ratio', 'get', 'alone', 'ratio'];
const nameOf = (bytes: number): string => (bytes < MIB ? `${bytes / 1024} KiB` : `${bytes / MIB} MiB`);
const count = (bytes: number): number => (bytes < MIB ? 1600 : 400);

console.log(`${describeMachine(readMachine())}\n`);
try {
  if (only === '' || only === 'file') {
    const rows: string[][] = [];
    for (const bytes of SIZES) {
      const store = { path: join(folder, `kv-${bytes}`), maxBytes: 2 ** 28 };
      const [raw, ours] = await bestOf(
        () => rawFile(join(folder, `raw-${bytes}`), bytes, count(bytes)),
        () => throughThread(store, bytes, count(bytes)),
      );
      rows.push(rowOf(nameOf(bytes), ours, raw));
    }
    printTable(HEAD, rows, 'A file of slots, MiB/s, beside a file alone');
  }
  if (only === '' || only === 'redis') {
    await withRedis(async (port) => {
      const url = `redis://127.0.0.1:${port}`;
      const rows: string[][] = [];
      for (const bytes of SIZES) {
        const [raw, ours] = await bestOf(
          () => redisBenchmark(port, bytes, count(bytes)),
          () => throughThread({ url, commandTimeoutMs: 60_000 }, bytes, count(bytes)),
        );
        rows.push(rowOf(nameOf(bytes), ours, raw));
      }
      printTable(
        HEAD,
        rows,
        `Redis, MiB/s, beside redis-benchmark with 1 or ${PIPELINE} commands on their way, the better of both`,
      );
    });
  }
  if (only === '' || only === 'loop') {
    await withRedis(async (port) => {
      const delays = await loopDelays(`redis://127.0.0.1:${port}`, 2 ** 21, 400);
      const row = (name: string, { p50, p99, max }: LoopDelay): string[] => [
        name,
        ...[p50, p99, max].map((ms) => ms.toFixed(2)),
      ];
      printTable(
        ['', 'p50', 'p99', 'max'],
        [
          row('nothing to do', delays.none),
          row('with the thread', delays.withThread),
          row('the same store without a thread', delays.withoutThread),
        ],
        'Delay of the event loop, ms, blocks of 2 MiB over Redis',
      );
    });
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
