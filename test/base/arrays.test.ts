// `distinct` gives each value once, in lists short enough to be compared by hand and in longer ones.
import { expect, it } from 'vitest';
import { distinct } from '../../src/base/arrays.js';
import { Driver } from '../support/driver.js';

it.each([2, 8, 9, 40])('gives each of %i values once, in the order in which they come first', (length) => {
  const list = Array.from({ length }, (_, i) => `id-${i}`);
  expect(distinct(list)).toEqual(list);
  const doubled = list.map((id, i) => (i === length - 1 ? list[0] : id));
  expect(distinct(doubled)).toEqual(list.slice(0, -1));
});

it('lists an id once in a plan that ended twice since the last plan', () => {
  const driver = new Driver();
  for (let i = 0; i < 2; i++) {
    driver.add({ id: 'a' });
    driver.scheduler.abort('a');
  }
  expect(driver.schedule().finished).toEqual(['a']);
});
