// A hand-over that queues while the server is paused.
import { expect, it, onTestFinished } from 'vitest';
import { LeaseConnector, LeaseWorker, MemoryHub } from '../../src/connectors/lease/index.js';
import { Engine, ReferenceExecutor } from '../../src/index.js';
import { unpagedText, wordy } from '../executors/reference/support.js';
import { answerOf, serve } from './support/served.js';

const LEASE_MS = 600;
const SEED = 1;
const SIZES = { numBlocks: 65, blockSize: 16, maxNumSeqs: 4, maxNumBatchedTokens: 256, maxModelLen: 512 };

/** The clock of both engines. */
let time = 1000;
/** Signs of life that the reader has sent. */
let numBeats = 0;
let wake = (): void => {};

/** Resolves when the reader has sent so many signs of life. */
async function beaten(count: number): Promise<void> {
  while (numBeats < count)
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
}

/** The options of an engine that hands KV over, by way of a hub. */
function options(hub: MemoryHub, name: string) {
  const executor = new ReferenceExecutor({ ...SIZES, seed: SEED });
  const now = (): number => time;
  const connector = new LeaseConnector({ addresses: [name], leaseMs: LEASE_MS });
  const worker = new LeaseWorker({ memory: executor, link: hub.link(name), now, retryMs: 10 });
  return { ...SIZES, executor, connector, workers: [worker], now };
}

it('a hand-over that queues while an operator pauses the server (keep) is read afterwards', async () => {
  const hub = new MemoryHub({
    carry: (parcel) => {
      const { message } = JSON.parse(Buffer.from(parcel.frames[0]).toString());
      if (parcel.from === 'decode' && message.kind === 'beat') {
        numBeats++;
        wake();
      }
      setImmediate(() => hub.deliver(parcel));
    },
  });
  const prefill = new Engine(options(hub, 'prefill'));
  onTestFinished(() => prefill.dispose());
  void prefill.run();
  const { engine, post, url } = await serve({ engine: options(hub, 'decode') });
  const prompt = wordy(100, 1);
  const { transferParams } = await prefill
    .submit({ prompt, maxTokens: 1, transferParams: { doRemoteDecode: true } })
    .result();
  expect(await answerOf(post('/pause?mode=keep', ''))).toEqual({ status: 'paused' });
  const stream = engine.submit({ prompt, maxTokens: 5, transferParams: transferParams ?? {} });
  // Two leases long, each of which has six signs of life.
  for (let beats = 1; beats <= 12; beats++) {
    await beaten(beats);
    time += LEASE_MS / 6;
  }
  expect(engine.numRunning).toBe(0);
  expect(await (await fetch(`${url}/is_paused`)).json()).toEqual({ is_paused: true });
  await post('/resume', '');
  const { tokens, numCachedTokens } = await stream.result();
  expect([...tokens]).toEqual(unpagedText(prompt, 5, { seed: SEED }));
  expect(numCachedTokens).toBe(99);
});
