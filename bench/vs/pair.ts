// One process: one case over two builds.
import { pathToFileURL } from 'node:url';
import { quantile } from '../rows/quantile.js';
import type * as Cases from './cases.js';
import { type PairResult, PROBE, type Spread } from './pair-result.js';

/**
 * Measures one case over two builds in this process, by turns, and prints a line of JSON. Arguments: the folders of both builds
 * in the order in which they are loaded, the name of the case, and the turns of each.
 */

class Wrong extends Error {
  readonly side: 'first' | 'second';

  constructor(side: 'first' | 'second', cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause));
    this.side = side;
  }
}

async function onSide<T>(side: 'first' | 'second', act: () => T | Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw new Wrong(side, error);
  }
}

const SIDES = ['first', 'second'] as const;

async function probe(folders: readonly string[]): Promise<void> {
  for (const [i, side] of SIDES.entries())
    await onSide(side, async () => {
      const url = pathToFileURL(`${folders[i]}/src/index.js`).href;
      const { Scheduler } = (await import(url)) as typeof import('../../src/index.js');
      const scheduler = new Scheduler({ numBlocks: 8, blockSize: 16, maxNumSeqs: 1, hashSeed: 1 });
      scheduler.add({ id: 'a', prompt: Int32Array.of(1, 2, 3), maxTokens: 1 });
      if (scheduler.schedule().numRequests !== 1) throw new Error('it does not plan a request');
      scheduler.dispose();
    });
}

async function measure(folders: readonly string[], name: string, turns: number): Promise<PairResult> {
  const made: { side: 'first' | 'second'; subject: Cases.Case; times: number[] }[] = [];
  let plan: Cases.Plan | undefined;
  for (const [i, side] of SIDES.entries()) {
    const { CASES } = (await onSide(
      side,
      () => import(pathToFileURL(`${folders[i]}/bench/vs/cases.js`).href),
    )) as typeof Cases;
    plan = CASES[name];
    const { make, warmup, turn } = plan;
    const subject = await onSide(side, () => make(warmup + turns * turn));
    made.push({ side, subject, times: [] });
  }
  const { warmup, turn } = plan as Cases.Plan;
  const share = Math.ceil(warmup / 8);
  for (let left = warmup; left > 0; left -= share)
    for (const { side, subject } of made) await onSide(side, () => subject.time(Math.min(share, left)));
  globalThis.gc?.();
  for (let i = 0; i < turns; i++)
    for (const { side, subject, times } of i % 2 === 0 ? made : made.toReversed())
      times.push(...(await onSide(side, () => subject.time(turn))));
  for (const { side, subject } of made) await onSide(side, () => subject.end());
  const [first, second] = made.map(
    ({ times }): Spread => ({ p10: quantile(times, 0.1), p50: quantile(times, 0.5) }),
  );
  return { first, second };
}

const [first, second, name, turns] = process.argv.slice(2);
let result: PairResult | object = {};
try {
  if (name === PROBE) await probe([first, second]);
  else result = await measure([first, second], name, Number(turns));
} catch (error) {
  if (!(error instanceof Wrong)) throw error;
  result = { wrong: error.side, error: error.message };
}
// The workload of one side may still be waiting for something.
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
