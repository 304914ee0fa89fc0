// The sequences of the failures F5 to F8, by their events.
import { describe, expect, it } from 'vitest';
import type { SchedulerConnector, WorkerOutput } from '../../../src/connector.js';
import type { OffloadConnector, OffloadReport } from '../../../src/connectors/offload/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { share } from '../../support/share.js';
import { type BenchOptions, OffloadBench, SEED } from './support.js';

const PROMPT = wordy(14, 1);
const TOKENS = 7;
const TEXT = unpagedText(PROMPT, TOKENS, { seed: SEED });
/** More rounds than the request lives. */
const ROUNDS = 14;
/** Full blocks of the prompt and its text, the last token left out: its KV is never computed. */
const FULL_BLOCKS = Math.floor((PROMPT.length + TOKENS - 1) / 4);

/** Counts the ends that are reported to the connector. */
function counting(ends: number[], times = 1): NonNullable<BenchOptions['wrap']> {
  return (connector) => {
    const wrapped: SchedulerConnector = Object.create(connector) as OffloadConnector;
    for (const name of [
      'bind',
      'bindPins',
      'onNewRequest',
      'getNumNewMatchedTokens',
      'updateStateAfterAlloc',
    ] as const)
      wrapped[name] = (connector[name] as (...args: unknown[]) => never).bind(connector);
    for (const name of ['buildMetadata', 'updateConnectorOutput', 'resetCache', 'hasPendingWork'] as const)
      (wrapped as unknown as Record<string, unknown>)[name] = (connector[name] as () => unknown).bind(
        connector,
      );
    wrapped.requestFinished = (...args) => {
      ends.push(args[0].handle);
      for (let i = 1; i < times; i++) connector.requestFinished(...args);
      return connector.requestFinished(...args);
    };
    return wrapped;
  };
}

/** Runs one request; its copies are held back until round `copyAt`, and it is aborted in round `abortAt`. */
async function run(bench: OffloadBench, copyAt: number, abortAt: number) {
  const stream = bench.submit({ prompt: PROMPT, maxTokens: TOKENS });
  for (let round = 0; round < ROUNDS; round++) {
    if (round === abortAt) stream.abort();
    if (round >= copyAt) bench.copyAll();
    bench.engine.step();
    await bench.compute();
  }
  bench.copyAll();
  await bench.finish();
  return stream.result();
}

const BREAKS: readonly [string, (ends: number[]) => Partial<BenchOptions>][] = [
  ['as it should be', (ends) => ({ wrap: counting(ends) })],
  // F5, F6: the end is reported twice in one step.
  ['with each end told twice', (ends) => ({ wrap: counting(ends, 2), offload: { strict: false } })],
  // F7, F8: a rank reports what nobody waits for any more.
  [
    'with each report made twice',
    (ends) => ({
      wrap: counting(ends),
      offload: { strict: false },
      wrapWorker: (worker) => ({
        startLoads: worker.startLoads.bind(worker),
        onStepSettled: worker.onStepSettled.bind(worker),
        shutdown: worker.shutdown.bind(worker),
        getFinished: (finished: readonly number[]): WorkerOutput<OffloadReport> | null => {
          const output = worker.getFinished(finished);
          const stores = output?.metadata?.stores ?? [];
          return output === null
            ? null
            : { ...output, metadata: { ...output.metadata, stores: [...stores, ...stores] } };
        },
      }),
    }),
  ],
];

describe.each(BREAKS)('the founding crash, %s', (_, broken) => {
  describe.each([1, 2, 3] as const)('at depth %i', (pipelineDepth) => {
    it.each(share([1 + (pipelineDepth % 2)], [1, 2]))(
      'ends well with %i ranks, whenever the last store and the request end',
      async (numRanks) => {
        let inSameRound = 0;
        // The last store may end before, in, and after the round of the end, and of the abort.
        for (let copyAt = share(1, 1, 0); copyAt < ROUNDS; copyAt += share(4, 2, 1)) {
          for (let abortAt = -1; abortAt < ROUNDS; abortAt += 2) {
            const ends: number[] = [];
            using bench = new OffloadBench({ engine: { pipelineDepth }, numRanks, ...broken(ends) });
            const { tokens, finishReason } = await run(bench, copyAt, abortAt);
            expect([...tokens]).toEqual(TEXT.slice(0, tokens.length));
            expect(ends).toHaveLength(1);
            expect(bench.leftovers()).toEqual([]);
            const { host } = bench.connector.stats();
            if (finishReason === 'length') expect(host.blocks).toBe(FULL_BLOCKS);
            else if (copyAt === abortAt) inSameRound++;
            // Every stored block is complete and correct.
            bench.engine.resetPrefixCache();
            const again = await bench.serve({ prompt: PROMPT, maxTokens: TOKENS });
            expect([...again.tokens]).toEqual(TEXT);
            expect(bench.connector.stats().host.hitTokens).toBe(
              4 * Math.min(host.blocks, Math.floor((PROMPT.length - 1) / 4)),
            );
            expect(bench.executor.faults).toEqual([]);
            expect(bench.leftovers()).toEqual([]);
          }
        }
        expect(inSameRound).toBeGreaterThan(share(0, 2));
      },
    );
  });
});

describe.each([1, 2, 3] as const)('an offload at depth %i', (pipelineDepth) => {
  it('the last store ends in the very step that ends its request', async () => {
    // The first run finds out in which round the request ends; the second one holds every copy back until then.
    let endsIn = -1;
    for (let run = 0; run < 2; run++) {
      using bench = new OffloadBench({ engine: { pipelineDepth } });
      const stream = bench.submit({ prompt: PROMPT, maxTokens: TOKENS });
      for (let round = 0; round < ROUNDS; round++) {
        if (run === 1 && round === endsIn) {
          expect(bench.connector.stats().host.stores).toMatchObject({ blocks: 0 });
          expect(bench.connector.stats().host.stores.inFlight).toBeGreaterThan(0);
        }
        if (run === 0 || round === endsIn) bench.copyAll();
        const wasOver = stream.ended;
        bench.engine.step();
        if (!wasOver && stream.ended) {
          if (run === 1) {
            expect(round).toBe(endsIn);
            expect(bench.connector.stats().host.stores.blocks).toBeGreaterThan(0);
          }
          endsIn = round;
        }
        await bench.compute();
      }
      await bench.finish();
      expect(endsIn).toBeGreaterThan(0);
      expect(bench.connector.stats().host.blocks).toBe(FULL_BLOCKS);
      expect(bench.leftovers()).toEqual([]);
    }
  });
});
