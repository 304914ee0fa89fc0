// Fixed seeds of every configuration and kind of model; planted bugs are noticed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LlamaModel, openLlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import { writeRandomLora } from '../../../support/gguf/random-lora.js';
import { type RandomModel, writeRandomModel } from '../../../support/gguf/random-model.js';
import { llamaForTests } from '../../../support/llama/library.js';
import { isQuick, share } from '../../../support/share.js';
import { useTempFiles } from '../../../support/temp-file.js';
import { Alone } from './alone.js';
import type { Fault } from './faulty-context.js';
import { EXACT, FLASH, type NumberType, USUAL } from './numbers.js';
import { type RunFigures, type RunOptions, randomRun, sumOf } from './random-run.js';

const { folder } = llamaForTests();

/** Runs some seeds, and adds their figures up. */
async function run(
  options: Omit<RunOptions, 'seed' | 'numbers'> & { numbers?: NumberType },
  seeds: readonly number[],
): Promise<RunFigures> {
  const all: RunFigures[] = [];
  for (const seed of seeds) all.push(await randomRun({ numbers: EXACT, ...options, seed }));
  return sumOf(all);
}

describe.skipIf(folder === null)('texts over llama.cpp', () => {
  const write = useTempFiles();
  const models = new Map<string, Promise<LlamaModel>>();
  const opened: { dispose(): void }[] = [];
  afterAll(() => {
    for (const each of opened) each.dispose();
  });

  /** A model with so many adapters. */
  function modelOf(written: RandomModel, numLoras = 0): Promise<LlamaModel> {
    const name = JSON.stringify([written, numLoras]);
    const known = models.get(name);
    if (known !== undefined) return known;
    const path = write(`${models.size}.gguf`, '');
    writeRandomModel(path, written);
    const loras: Record<string, string> = {};
    for (let seed = 1; seed <= numLoras; seed++) {
      loras[`lora${seed}`] = write(`${models.size}-${seed}.lora`, '');
      writeRandomLora(loras[`lora${seed}`], { seed }, written);
    }
    const model = openLlamaModel({ path, loras, libraryFolder: folder as string, variant: 'cpu' });
    void model.then((each) => opened.push(each));
    models.set(name, model);
    return model;
  }

  async function setUp(
    written: RandomModel,
    numbers = EXACT,
    numLoras = 0,
  ): Promise<{ model: LlamaModel; alone: Alone }> {
    const model = await modelOf(written, numLoras);
    const alone = await Alone.create(model, numbers, 512);
    opened.push(alone);
    return { model, alone };
  }

  let llama: { model: LlamaModel; alone: Alone };
  beforeAll(async () => {
    llama = await setUp({});
  });

  it('are those of the model alone', async () => {
    const figures = await run(llama, [1, 2, 3, 4]);
    expect(figures.reports).toEqual([]);
    expect(figures).toMatchObject({ wrong: 0, errors: 0, failedSteps: 0 });
    // Cases that the seeds must have met, so that they prove something.
    expect(figures.chainedSteps).toBeGreaterThan(50);
    expect(figures.preemptions).toBeGreaterThan(0);
    expect(figures.aborted).toBeGreaterThan(0);
    expect(figures.hits).toBeGreaterThan(50);
    expect(figures.hitsInStep).toBeGreaterThan(0);
    expect(figures.recomputed).toBeGreaterThan(0);
    expect(figures.sequencesGivenUp).toBeGreaterThan(0);
  });

  it('are so with flash attention, which rounds keys and values to 16 bits', async () => {
    const figures = await run({ ...(await setUp({}, FLASH)), numbers: FLASH }, [1, 2]);
    expect(figures.reports).toEqual([]);
    expect(figures).toMatchObject({ wrong: 0, errors: 0 });
    expect(figures.hits).toBeGreaterThan(0);
  });

  it('are so with drafts', async () => {
    const figures = await run({ ...llama, drafts: true }, [5, 6, 7]);
    expect(figures.reports).toEqual([]);
    expect(figures.wrong).toBe(0);
    expect(figures.accepted).toBeGreaterThan(10);
  });

  it('are so where blocks move to host memory and back', async () => {
    const figures = await run({ ...llama, offloads: true, numBlocks: 12 }, share([7, 10], [7, 10, 1, 11]));
    expect(figures.reports).toEqual([]);
    expect(figures).toMatchObject({ wrong: 0, errors: 0, failedSteps: 0 });
    expect(figures.saved).toBeGreaterThan(50);
    expect(figures.loaded).toBeGreaterThan(20);
    expect(figures.aborted).toBeGreaterThan(0);
  });

  it.skipIf(isQuick)(
    'are so where decodes and their drafts are so many that they stand in several calls',
    async () => {
      const figures = await run({ ...llama, drafts: true, maxNumSeqs: 32, numBlocks: 256 }, [1, 3, 6]);
      expect(figures.reports).toEqual([]);
      expect(figures.wrong).toBe(0);
      // Up to 32 requests with three drafts each: 128 rows, of which a call has 63 at most.
      expect(figures.accepted).toBeGreaterThan(10);
    },
  );

  it('are so where tokens are drawn, with penalties, biases and filters', async () => {
    const figures = await run({ ...llama, sampling: true, drafts: true }, share([8], [8, 9]));
    expect(figures.reports).toEqual([]);
    expect(figures.wrong).toBe(0);
  });

  it('are those of the model with the adapter of their request alone, whatever others have', async () => {
    const withLoras = await setUp({}, EXACT, 2);
    const figures = await run({ ...withLoras, adapters: true, drafts: true }, share([5], [5, 6, 7]));
    expect(figures.reports).toEqual([]);
    expect(figures.wrong).toBe(0);
    expect(figures.hits).toBeGreaterThan(0);
  });

  it.skipIf(isQuick)(
    'are so up to a call that failed, and those of requests that had no part in it to their end',
    async () => {
      const figures = await run({ ...llama, fault: 'fail' }, [2, 3, 4, 10]);
      expect(figures.failedSteps).toBeGreaterThan(1);
      // Only requests that were made to fail have failed. A step of a chain that nobody asked for
      // fails unseen.
      expect(figures.failedSteps).toBeLessThanOrEqual(figures.changed);
      expect(figures.errors).toBeGreaterThan(0);
      expect(figures.wrong).toBe(0);
    },
  );

  it.skipIf(isQuick)('are so in every pool and with whatever many sequences that keep prefixes', async () => {
    for (const numBlocks of [8, 16, 48]) {
      for (const cachedSequences of [0, 1, 100]) {
        const figures = await run({ ...llama, numBlocks, cachedSequences }, [11]);
        expect(figures.reports).toEqual([]);
      }
    }
  });

  it.each([
    ['of a sliding window', { architecture: 'gemma3', window: 24 }],
    ['of states alone', { architecture: 'mamba' }],
    ['of states and attention', { architecture: 'lfm2' }],
  ] as const)('are so for a model %s', async (_, written) => {
    const figures = await run(await setUp(written), share([12], [12, 13]));
    expect(figures.reports).toEqual([]);
    expect(figures.wrong).toBe(0);
  });

  it('part where two tokens are about equally likely alone, with flash attention and a cache of 16 bits', async () => {
    const usual = await setUp({ weights: 'Q8_0' }, USUAL);
    const figures = await run({ ...usual, numbers: USUAL }, share([14], [14, 15]));
    expect(figures.reports).toEqual([]);
    expect(figures.near).toBeLessThan(figures.requests / 2);
  });

  it.skipIf(isQuick).each<[Fault]>([['token'], ['holder'], ['remove'], ['draw'], ['adapter'], ['block']])(
    'a planted bug is noticed: %s',
    async (fault) => {
      let noticed = 0;
      const adapters = fault === 'adapter';
      const set = adapters ? await setUp({}, EXACT, 2) : llama;
      const offloads = fault === 'block';
      for (const seed of offloads ? [7, 10, 1] : [16, 17, 18]) {
        const figures = await randomRun({
          ...set,
          numbers: EXACT,
          fault,
          adapters,
          ...(offloads && { offloads, numBlocks: 12 }),
          drafts: !offloads,
          sampling: fault === 'draw',
          seed,
        });
        if (figures.wrong + figures.errors > 0) noticed++;
      }
      expect(noticed).toBeGreaterThan(0);
    },
  );
});
