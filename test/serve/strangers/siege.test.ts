// A share of the siege: all requests are answered.
import { expect, it } from 'vitest';
import { share } from '../../support/share.js';
import { isEmpty, serve } from '../support/served.js';
import { BODIES, besiege, TEXTS, watchHealth } from './siege.js';

const ANSWERS = share(1, 4) * TEXTS.length * BODIES.length;

it(`texts of strangers are answered, and the server is well all the while: ${ANSWERS} bodies`, async () => {
  const { url, engine } = await serve({ engine: { maxModelLen: 1024 } });
  let isOver = false;
  const watch = watchHealth(url, () => isOver);
  const sizes = share([1000, 30_000, 200_000], [1000, 30_000, 200_000, 1_000_000]);
  const statuses = await besiege(url, 20, sizes, (n) => n >= ANSWERS);
  isOver = true;
  expect((await watch).length).toBeGreaterThan(0);
  // Each is answered, some with tokens, and none by a failure of the server.
  expect([...statuses.keys()].filter((status) => ![0, 200, 400, 413].includes(status))).toEqual([]);
  expect(statuses.get(200)).toBeGreaterThan(0);
  expect(statuses.get(400)).toBeGreaterThan(0);
  expect(isEmpty(engine)).toBe(true);
  engine.verify();
});
