// The expected tables, and a share of the scaled matrix.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isQuick, share } from '../../support/share.js';
import { ROWS, type Row, type RowResult, runRow, runRows } from './rows.js';
import { printTable, runHangs, runTable, sayHangs } from './tables.js';
import { AS_REPORTED, OURS, OWN, type Variant } from './variants.js';

const OPTIONS = { seed: 3, maxNumSeqs: 8 };
const SEEDS = share([1, 2, 3], [1, 2, 3, 4, 5]);

function variant(name: string): Variant {
  const found = AS_REPORTED.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no variant ${name}`);
  return found;
}

const reported = await runTable(AS_REPORTED, OPTIONS);
const ours = await runTable(OURS, OPTIONS);

/** The rows of a variant as reported: those of the table, or new ones. */
function rowsOf(name: string, options = OPTIONS): Promise<readonly RowResult[]> {
  const line = reported.find((each) => each.variant === name);
  if (line !== undefined && options === OPTIONS) return Promise.resolve(line.rows);
  return runRows(() => variant(name).make(options));
}

describe('as reported', () => {
  it('without get and skip the engine dies of the first abort that meets it', async () => {
    const rows = await rowsOf('no guard');
    for (const { died } of rows.slice(0, 4)) expect(died).toMatch(/^stage \d: KeyError: /);
    expect(rows[4]).toMatchObject({ complete: true, died: null });
  });

  for (const name of ['get and skip', 'get and skip, purge']) {
    it(`${name}: of 16 sequential aborts all but maxNumSeqs hang at zero chunks`, async () => {
      for (const { maxNumSeqs, hung } of await runHangs(variant(name), [3, 8, 13], SEEDS))
        expect(hung).toEqual(SEEDS.map(() => 16 - maxNumSeqs));
    });
  }

  it('it depends on timing: not each abort costs a place where it may come late, or where more chunks come', async () => {
    for (const shapes of [{ shortAnswers: true }, { textChunks: 3 }]) {
      const hung = (await runHangs(variant('get and skip'), [8], SEEDS, shapes)).flatMap((each) => each.hung);
      for (const count of hung) expect(count).toBeLessThanOrEqual(8);
      expect(Math.min(...hung)).toBeLessThan(8);
    }
  });

  it.each(['realign', 'sweep'])('get and skip with %s alone: none of the 16 hangs', async (guard) => {
    for (const { hung } of await runHangs(variant(`get and skip, ${guard}`), [8, 13], SEEDS))
      expect(hung).toEqual(SEEDS.map(() => 0));
  });

  it('with few places zombies that are put back fill them, unless they are swept', async () => {
    const hung = async (name: string) =>
      (await runHangs(variant(name), [3], SEEDS)).flatMap((each) => each.hung);
    expect(Math.max(...(await hung('get and skip, realign')))).toBeGreaterThan(0);
    expect(await hung('get and skip, sweep')).toEqual(SEEDS.map(() => 0));
    expect(await hung('all guards')).toEqual(SEEDS.map(() => 0));
  });

  it('realignment alone leaves zombies among the running, the sweep alone does not', async () => {
    expect((await rowsOf('get and skip, realign'))[0]?.lostPlaces).toBeGreaterThan(0);
    expect((await rowsOf('get and skip, sweep'))[0]?.lostPlaces).toBe(0);
  });

  it('without the purge zombies are put back, and can kill the engine', async () => {
    const zombies = async (name: string) =>
      (await rowsOf(name)).reduce((sum, { guards }) => sum + (guards['zombies put back'] ?? 0), 0);
    expect(await zombies('all guards but the purge')).toBeGreaterThan(0);
    expect(await zombies('all guards')).toBe(0);
    const seed = { ...OPTIONS, seed: 12 };
    for (const name of ['get and skip, sweep', 'get and skip, realign, sweep'])
      expect((await rowsOf(name, seed)).map(({ died }) => died)).toContainEqual(
        expect.stringContaining('Invalid request status: FINISHED_ABORTED'),
      );
    for (const row of await rowsOf('all guards', seed)) expect(row.complete).toBe(true);
  });

  it('with all guards every row is complete, for every seed', async () => {
    for (const seed of SEEDS) {
      for (const row of await rowsOf('all guards', { ...OPTIONS, seed }))
        expect(row).toMatchObject({ complete: true, lostPlaces: 0 });
    }
  });
});

describe('ours, with the same borrowing adapter', () => {
  for (const line of ours) {
    it(`${line.variant}: every row is complete, and no place is lost`, () => {
      expect(line.rows).toHaveLength(ROWS.length);
      for (const row of line.rows) expect(row).toMatchObject({ complete: true, lostPlaces: 0 });
    });

    it(`${line.variant}: without aborts the guards find nothing`, () => {
      expect(line.rows[4]?.guards).toEqual({});
    });
  }

  it('two runs are equal', async () => {
    const run = () => runTable(OURS.slice(0, 1), { ...OPTIONS, seed: 11 });
    const [first, second] = [await run(), await run()];
    expect(first).toEqual(second);
  });
});

describe('our own pipeline, which borrows nothing', () => {
  it.each(SEEDS.slice(0, 2))(
    'seed %i: every row is complete, no place is lost, and no guard finds anything',
    async (seed) => {
      const [line] = await runTable(OWN, { ...OPTIONS, seed, textChunks: 3 });
      expect(line?.rows).toHaveLength(ROWS.length);
      for (const row of line?.rows ?? [])
        expect(row).toMatchObject({ complete: true, lostPlaces: 0, guards: {} });
    },
  );
});

describe('docs/internals/pipeline-matrix.md', () => {
  const text = readFileSync(new URL('../../../docs/internals/pipeline-matrix.md', import.meta.url), 'utf8');

  it.skipIf(isQuick)('has the tables as they are printed', async () => {
    for (const lines of [reported, ours, await runTable(OWN, OPTIONS)])
      expect(text).toContain(printTable(lines));
    for (const { maxNumSeqs, hung } of await runHangs(variant('get and skip'), [3, 8, 13], SEEDS))
      expect(text).toContain(sayHangs(maxNumSeqs, hung));
  });
});

/** A fixed share of `npm run test:long -- matrix`. */
describe('scaled up', () => {
  const row: Row = { name: 'scaled', total: 400, concurrency: 64, aborts: 0.5, seed: 1 };

  it.each([AS_REPORTED.at(-1), OURS[0], OWN[0]])('400 requests, 64 at a time: %o', async (which) => {
    const subject = (which as Variant).make({ ...OPTIONS, textChunks: 3 });
    expect(await runRow(subject, row)).toMatchObject({ complete: true, lostPlaces: 0 });
    subject.dispose?.();
  });
});
