/**
 * How long it takes to hand the KV of a prompt over to another process. The time runs from `submit`
 * to the first token of an engine whose model takes no time. For comparison, the table has one
 * `memcpy` of the same bytes in the same minute.
 *
 *     npm run bench:lease -- 15    # 15 hand-overs of each size; 11 without a number
 */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LeaseConnector, LeaseWorker, ZmqLink } from '../../../src/connectors/lease/index.js';
import { Engine } from '../../../src/index.js';
import { BlockArena } from '../../../src/transfer.js';
import { DoNothing } from '../../engine/engine-workloads.js';
import { describeMachine, readMachine } from '../../machine.js';
import { printTable } from '../support/table.js';

const TOKENS = [1024, 8192, 32_768] as const;
const BYTES_PER_TOKEN = 16 * 1024;
const BLOCK_SIZE = 16;
const NUM_BLOCKS = 32_768 / BLOCK_SIZE + 64;
const OPTIONS = {
  ...{
    numBlocks: NUM_BLOCKS,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: 4,
    maxNumBatchedTokens: 40_000,
    maxModelLen: 33_000,
  },
  enablePrefixCaching: false,
};

interface Prefilled {
  readonly transferParams: Readonly<Record<string, unknown>> | null;
}

function prompt(length: number, seed: number): Int32Array {
  return Int32Array.from({ length }, (_, i) => (i * 31 + seed * 977) % 50_000);
}

/** An engine over a real link, whose model takes no time. */
async function serve(address: string, isShared: boolean) {
  const shape = { numBlocks: NUM_BLOCKS, bytesPerBlock: BLOCK_SIZE * BYTES_PER_TOKEN };
  const kv = BlockArena.allocate({ ...shape, shared: isShared });
  new Uint8Array(kv.buffer).fill(7);
  const link = await ZmqLink.open({ bind: address });
  const worker = new LeaseWorker({ memory: { kv }, link });
  const connector = new LeaseConnector({ addresses: [link.address] });
  const engine = new Engine({
    ...OPTIONS,
    executor: new DoNothing(OPTIONS.maxNumSeqs),
    connector,
    workers: [worker],
  });
  void engine.run();
  return { engine, worker, kv };
}

async function child(address: string, isShared: boolean): Promise<void> {
  const { engine } = await serve(address, isShared);
  process.on('message', async ({ length, seed }: { length: number; seed: number }) => {
    const input = { prompt: prompt(length, seed), maxTokens: 1, transferParams: { doRemoteDecode: true } };
    const { transferParams } = await engine.submit(input).result();
    process.send?.({ transferParams } satisfies Prefilled);
  });
  process.send?.({ transferParams: null });
}

async function measure(way: 'memory' | 'messages', samples: number): Promise<string[][]> {
  const rows: string[][] = [];
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-bench-'));
  const address = `ipc://${join(folder, 'p')}`;
  const other = fork(fileURLToPath(import.meta.url), ['child', address, way]);
  const answer = () =>
    new Promise<Prefilled>((resolve) => other.once('message', resolve as (value: unknown) => void));
  await answer();
  const { engine, worker, kv } = await serve(`ipc://${join(folder, 'd')}`, false);
  const source = BlockArena.allocate({ numBlocks: NUM_BLOCKS, bytesPerBlock: kv.bytesPerBlock });
  const [from, to] = [new Uint8Array(source.buffer).fill(3), new Uint8Array(kv.buffer)];
  for (const length of TOKENS) {
    const took: number[] = [];
    const copied: number[] = [];
    for (let i = 0; i < samples + 2; i++) {
      const came = answer();
      other.send({ length, seed: i });
      const { transferParams } = await came;
      const before = performance.now();
      await engine
        .submit({ prompt: prompt(length, i), maxTokens: 1, transferParams: transferParams ?? {} })
        .result();
      const between = performance.now();
      to.set(from.subarray(0, length * BYTES_PER_TOKEN));
      const after = performance.now();
      // The first ones greet the peer, and touch memory for the first time.
      if (i < 2) continue;
      took.push(between - before);
      copied.push(after - between);
    }
    const [hand, raw] = [median(took), median(copied)];
    const mib = (length * BYTES_PER_TOKEN) / 2 ** 20;
    const speed = ((mib / 1024 / hand) * 1000).toFixed(2);
    rows.push([
      way,
      `${length}`,
      `${mib} MiB`,
      hand.toFixed(1),
      raw.toFixed(1),
      (hand / raw).toFixed(2),
      speed,
    ]);
  }
  const { reads, ways } = worker.stats();
  if (reads.ok !== TOKENS.length * (samples + 2) || ways[way] !== reads.ok)
    throw new Error(`not all were handed over: ${JSON.stringify(worker.stats())}`);
  other.kill();
  await engine.shutdown();
  rmSync(folder, { recursive: true, force: true });
  return rows;
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1];
}

if (process.argv[2] === 'child') await child(process.argv[3], process.argv[4] === 'memory');
else {
  console.log(`${describeMachine(readMachine())}\n`);
  const samples = Number(process.argv[2] ?? 11);
  const rows = [...(await measure('memory', samples)), ...(await measure('messages', samples))];
  printTable(['way', 'tokens', 'bytes', 'hand-over, ms', 'memcpy, ms', 'ratio', 'GiB/s'], rows);
}
