// Random lives with a hostile adapter: invariants hold, each request ends once, with its text.
import { describe, expect, it } from 'vitest';
import { leftovers } from '../../support/driver.js';
import { Life } from '../random-life.js';
import { HostileBorrower } from './hostile-borrower.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 12);
/** A lent request whose adapter did not count while another one was admitted. */
const RARE = [51].filter((seed) => seed >= SEEDS);
const EVENTS = 300;
const WANTED = [
  'borrower-failed',
  'lost-request',
  'misplaced-request',
  'purged-untracked',
  'realigned-status',
];

/** A random life with a hostile borrowing adapter, which becomes quiet when the life ends. */
function live(seed: number, converses: boolean): Life {
  const borrower = new HostileBorrower(seed + 1000);
  const life = new Life(seed, { borrower }, converses);
  const { driver, added } = life;
  const run = driver.run.bind(driver);
  driver.run = () => {
    borrower.isDone = true;
    run();
  };
  life.run(EVENTS);
  expect(leftovers(driver.scheduler)).toEqual([]);
  for (const { handle, isSession } of added) {
    const ends = driver.ends.get(handle) as string[];
    expect(ends).toHaveLength(1);
    const text = driver.text(handle);
    if (!isSession) expect(text).toEqual(driver.model.text(handle, text.length));
  }
  const cleaned = [...borrower.cleaned].filter(([{ id }]) => id !== 'stranger');
  expect(cleaned.map(([, times]) => times)).toEqual(cleaned.map(() => 1));
  expect(cleaned.map(([{ handle }]) => handle).sort((a, b) => a - b)).toEqual(
    added.map(({ handle }) => handle).sort((a, b) => a - b),
  );
  return life;
}

describe('random lives with a hostile borrowing adapter', () => {
  const total: Record<string, number> = {};

  for (const seed of [...Array(SEEDS).keys(), ...RARE]) {
    it(`seed ${seed}: invariants hold after every call, each request ends once, with its text`, () => {
      const { anomalies } = live(seed, seed % 2 === 1).driver.scheduler.stats();
      for (const [what, count] of Object.entries(anomalies)) total[what] = (total[what] ?? 0) + count;
    });
  }

  it('do everything that they are for', () => {
    for (const what of WANTED) expect(total[what], what).toBeGreaterThan(20);
  });
});
