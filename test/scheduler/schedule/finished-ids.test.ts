// The ids of requests that have ended, in a plan.
import { expect, it } from 'vitest';
import { Driver } from '../../support/driver.js';

it('lists an id once in a plan that ended twice since the last plan', () => {
  const driver = new Driver();
  for (let i = 0; i < 2; i++) {
    driver.add({ id: 'a' });
    driver.scheduler.abort('a');
  }
  expect(driver.schedule().finished).toEqual(['a']);
});
