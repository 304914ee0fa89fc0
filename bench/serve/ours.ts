/** Our server, over an executor that costs nothing: `ours.js PACE_MS STREAMS TOKENS`. With a pace of 0 it answers as soon as the event loop comes by. */
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { Engine, type Executor, type ExecutorPlan, type ExecutorResult } from '../../src/index.js';
import { blockstepServer, o200k } from '../../src/serve/index.js';
import type { ServerMessage } from './messages.js';
import { SelfWatch } from './window.js';

const [pace, numStreams, numTokens] = process.argv.slice(2).map(Number);
const BLOCK = 16;
const [WORD] = o200k.encode(' word');

/** Says the same word for ever, each step by a promise, as a device would. */
class Paced implements Executor {
  readonly usesTables = false;
  readonly #tokens = new Int32Array(numStreams).fill(WORD);
  #answeredAt = 0;

  execute({ numRequests, maxOutputTokens }: ExecutorPlan): Promise<ExecutorResult> {
    if (this.#answeredAt > 0) watch.idle(performance.now() - this.#answeredAt);
    const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
    const answer = { counts, tokens: this.#tokens };
    return new Promise((resolve) => {
      const end = (): void => {
        this.#answeredAt = performance.now();
        resolve(answer);
      };
      if (pace > 0) setTimeout(end, pace);
      else setImmediate(end);
    });
  }
}

const engine = new Engine({
  numBlocks: numStreams * Math.ceil(numTokens / BLOCK + 4) + 1,
  blockSize: BLOCK,
  maxNumSeqs: numStreams,
  maxNumBatchedTokens: 32_768,
  maxModelLen: numTokens + 32,
  executor: new Paced(),
});
const watch = new SelfWatch(() => engine.stats().scheduler.generationTokens);
const app = fastify({ forceCloseConnections: true });
await app.register(blockstepServer, { engine, model: { id: 'llama-3.1-8b' }, drainMs: 0 });
await app.listen({ port: 0, host: '127.0.0.1' });
const { port } = app.server.address() as AddressInfo;
process.send?.({ kind: 'ready', port } satisfies ServerMessage);
