// An engine whose connector and worker have asynchronous functions where none belong, each of which
// rejects.
import type { SchedulerConnector, WorkerConnector } from '../../../src/connector.js';
import { Engine } from '../../../src/index.js';

/**
 * An engine whose connector and worker have asynchronous functions where none belong, each of which
 * rejects. Prints how its requests ended. Nobody listens for rejections: a rejection that the
 * engine ignores ends the process.
 */
const rejects = (name: string) => async () => {
  await Promise.resolve();
  throw new Error(`planted in ${name}`);
};

const which = process.argv[2];
const good: Record<string, (...args: never[]) => unknown> = {
  onNewRequest: () => {},
  getNumNewMatchedTokens: () => ({ numTokens: 0, async: false }),
  updateStateAfterAlloc: () => {},
  buildMetadata: () => ({}),
  updateConnectorOutput: () => {},
  requestFinished: () => ({ delayFree: false }),
  resetCache: () => true,
  hasPendingWork: () => false,
  shutdown: () => {},
};
const worker: Record<string, (...args: never[]) => unknown> = {
  startLoads: () => {},
  startStores: () => {},
  onStepSettled: () => {},
  getFinished: () => ({ finishedReceiving: [{ handle: 1 }] }),
  shutdown: () => {},
};
const [side, name] = which.split('.');
const attacked = side === 'worker' ? worker : good;
if (name !== 'none') attacked[name] = rejects(which);

const engine = new Engine({
  numBlocks: 33,
  blockSize: 4,
  maxModelLen: 64,
  connector: good as unknown as SchedulerConnector,
  workers: [worker as unknown as WorkerConnector],
  executor: {
    usesTables: false,
    execute: ({ numRequests, maxOutputTokens }) => ({
      tokens: new Int32Array(numRequests).fill(7),
      counts: Int32Array.from(maxOutputTokens.subarray(0, numRequests)),
    }),
  },
});
const stream = engine.submit({ prompt: Int32Array.of(1, 2, 3), maxTokens: 3 });
const ended = stream.result().then(
  ({ finishReason }) => finishReason,
  (error: unknown) => (error as { code?: string }).code,
);
for (let i = 0; i < 20 && engine.hasWork(); i++) {
  engine.step();
  await new Promise((resolve) => setImmediate(resolve));
}
engine.verify();
engine.resetPrefixCache({ resetConnector: true });
const { healthy } = engine.health();
engine.dispose();
await new Promise((resolve) => setImmediate(resolve));
console.log(JSON.stringify({ ended: await ended, healthy }));
