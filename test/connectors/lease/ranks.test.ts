// Every rank reads from its own rank.
import { expect, it } from 'vitest';
import { LeaseConnector, LeaseWorker, MemoryHub } from '../../../src/connectors/lease/index.js';
import { Engine, ReferenceExecutor } from '../../../src/index.js';
import { BlockArena } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';

const OPTIONS = { numBlocks: 32, blockSize: 4, maxNumSeqs: 4, maxNumBatchedTokens: 64, maxModelLen: 64 };

it('every rank reads from its own rank, and a load is over when all have', async () => {
  const hub = new MemoryHub();
  const serve = (name: string, fill: number) => {
    const executor = new ReferenceExecutor(OPTIONS);
    const links = [0, 1].map((rank) => hub.link(`${name} ${rank}`));
    const { numBlocks } = OPTIONS;
    // The second rank has only memory: the content of a block tells whose it was.
    const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: 96 });
    new Uint8Array(kv.buffer).fill(fill);
    const workers = [
      new LeaseWorker({ memory: executor, link: links[0], rank: 0 }),
      new LeaseWorker({ memory: { kv }, link: links[1], rank: 1 }),
    ];
    const connector = new LeaseConnector({ addresses: links.map(({ address }) => address) });
    const engine = new Engine({ ...OPTIONS, executor, connector, workers, strict: true });
    void engine.run();
    return { engine, workers, connector, kv };
  };
  const [p, d] = [serve('p', 5), serve('d', 0)];
  const prompt = wordy(33, 1);
  const far = { doRemoteDecode: true };
  const first = await p.engine.submit({ prompt, maxTokens: 1, transferParams: far }).result();
  const input = { prompt, maxTokens: 6, transferParams: first.transferParams ?? {} };
  const { tokens, numCachedTokens } = await d.engine.submit(input).result();
  expect([...tokens]).toEqual(unpagedText(prompt, 6));
  expect(numCachedTokens).toBe(32);
  expect(d.workers.map((worker) => worker.stats().reads.ok)).toEqual([1, 1]);
  const loaded = Array.from({ length: OPTIONS.numBlocks }, (_, block) => d.kv.block(block)[95]);
  expect(loaded.filter((byte) => byte === 5)).toHaveLength(8);
  while (p.engine.hasWork() || d.engine.hasWork()) await new Promise(setImmediate);
  expect(p.connector.stats()).toMatchObject({ requests: 0, orders: 0 });
  await Promise.all([p.engine.shutdown(), d.engine.shutdown()]);
});
