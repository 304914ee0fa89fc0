// 64 streaming clients while KV moves. A load completes after its abort, an abort and a completion
// come in one step, and a finished request that is being sent is aborted.
import { describe, expect, it } from 'vitest';
import { Engine, type RequestStream } from '../../src/index.js';
import { ScriptedConnector } from '../support/connector/scripted-connector.js';
import { ScriptedWorker } from '../support/connector/scripted-worker.js';
import { FakeExecutor, outputs, prompt, settled, tokensOf } from '../support/engine-bench.js';

const CLIENTS = 64;
const TOKENS = 12;

/** An engine with 64 streaming clients; client 7 has something moved by the connector. */
function serve(pipelineDepth: 1 | 2, script: ConstructorParameters<typeof ScriptedConnector>[0]) {
  const connector = new ScriptedConnector(script);
  const worker = new ScriptedWorker();
  const executor = new FakeExecutor(true);
  const engine = new Engine({
    numBlocks: 1 + 8 * CLIENTS,
    blockSize: 4,
    maxNumSeqs: CLIENTS,
    maxModelLen: 64,
    pipelineDepth,
    executor,
    connector,
    workers: [worker],
  });
  const streams = Array.from({ length: CLIENTS }, (_, i) =>
    engine.submit({ id: `c${i}`, prompt: prompt(9, i), maxTokens: TOKENS }),
  );
  const reading = streams.map(async (stream) => tokensOf(await outputs(stream)));
  return { engine, executor, connector, worker, streams, reading };
}

/** Answers every step that the engine gives its executor, until nothing is left to do. */
async function drive(engine: Engine, executor: FakeExecutor, meanwhile: (round: number) => void = () => {}) {
  for (let round = 0; engine.hasWork(); round++) {
    if (round > 500) throw new Error(`still at work: ${JSON.stringify(engine.stats().scheduler)}`);
    meanwhile(round);
    engine.step();
    const oldest = executor.pending.shift();
    oldest?.resolve(oldest.answer);
    await settled();
    engine.verify();
  }
}

/**
 * Every client but client 7 got all of its text, client 7 was notified once, and the pool is as it
 * was.
 */
async function expectUnharmed(engine: Engine, reading: Promise<number[]>[], stream: RequestStream) {
  const texts = await Promise.all(reading);
  texts.forEach((text, i) => {
    if (i !== 7) expect(text).toEqual(Array.from({ length: TOKENS }, (_, k) => 100 * (9 + k)));
  });
  await expect(stream.result()).resolves.toMatchObject({ finishReason: 'abort' });
  const { scheduler, streams } = engine.stats();
  expect({ streams, ...scheduler }).toMatchObject({
    streams: 0,
    numRunning: 0,
    numLoading: 0,
    numDraining: 0,
    numQuarantined: 0,
    rowsInUse: 0,
    freeBlocks: 8 * CLIENTS,
    finished: { length: CLIENTS - 1, abort: 1, error: 0 },
  });
  expect(engine.health()).toEqual({ healthy: true, state: 'open', authority: 'host', reasons: [] });
}

describe.each([1, 2] as const)(
  '64 clients at depth %i, one leaves while its transfer is in flight',
  (depth) => {
    it('a load completes after the abort: its blocks wait for it, a second report is skipped and counted', async () => {
      // vLLM #43226: the assertion in _update_from_kv_xfer_finished ends the engine, and all 64 clients with it.
      const script = { c7: { ext: 8, async: true } };
      const { engine, executor, worker, streams, reading } = serve(depth, script);
      const [handle] = [streams[7].handle];
      let heldMeanwhile = 0;
      await drive(engine, executor, (round) => {
        if (round === 3) streams[7].abort();
        if (round === 6) heldMeanwhile = engine.stats().scheduler.numDraining;
        if (round === 8)
          worker.next.push({ finishedReceiving: [{ handle }] }, { finishedReceiving: [{ handle }] });
      });
      expect(heldMeanwhile).toBe(1);
      await expectUnharmed(engine, reading, streams[7]);
      expect(engine.stats().scheduler.anomalies).toEqual({ 'stale-handle': 1 });
      engine.dispose();
    });

    it('abort and completion meet in one step: one callback, freed once, the step goes on', async () => {
      // dynamo #6681: finished twice, the second answer frees what the first kept, then the completion of the same step asserts.
      const script = { c7: { delayFree: true, delayAbort: true } };
      const { engine, executor, connector, worker, streams, reading } = serve(depth, script);
      const { handle } = streams[7];
      await drive(engine, executor, (round) => {
        if (round !== 5) return;
        streams[7].abort();
        worker.next.push({ finishedSending: [{ handle }] }, { finishedSending: [{ handle }] });
      });
      expect(connector.calls.filter((call) => call.startsWith('finished c7'))).toHaveLength(1);
      await expectUnharmed(engine, reading, streams[7]);
      expect(engine.stats().scheduler.anomalies).toEqual({ 'stale-handle': 1 });
      engine.dispose();
    });

    it('abort of a request that has finished and is being sent: ignored, freed when it was sent', async () => {
      // vLLM #25067: the abort finishes it a second time and frees blocks under the reader.
      const script = { c7: { delayFree: true, delayAbort: true } };
      const { engine, executor, connector, worker, streams, reading } = serve(depth, script);
      const { handle } = streams[7];
      let [before, after] = [0, 0];
      await drive(engine, executor, (round) => {
        if (engine.stats().scheduler.numDraining === 1 && before === 0) {
          before = engine.stats().scheduler.freeBlocks;
          engine.abort(handle);
          engine.abort('c7');
          engine.step();
          after = engine.stats().scheduler.rowsInUse;
        }
        if (round === 40) worker.next.push({ finishedSending: [{ handle }, { handle }] });
      });
      expect(after).toBeGreaterThan(0);
      expect(connector.calls.filter((call) => call.startsWith('finished c7'))).toEqual([
        'finished c7 length 5',
      ]);
      const texts = await Promise.all(reading);
      for (const text of texts) expect(text).toHaveLength(TOKENS);
      await expect(streams[7].result()).resolves.toMatchObject({
        finishReason: 'length',
        transferParams: { remote: 'c7' },
      });
      expect(engine.stats().scheduler).toMatchObject({
        numDraining: 0,
        freeBlocks: 8 * CLIENTS,
        anomalies: { 'abort-finished': 1, 'abort-unknown': 1, 'stale-handle': 1 },
      });
      engine.dispose();
    });
  },
);
