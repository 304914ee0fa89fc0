// Ids are ordered as Python orders strings, by code points.
import { describe, expect, it } from 'vitest';
import { compareIds } from '../../../src/scheduler/request/id-order.js';
import { Driver, Random } from '../../support/driver.js';

/** Code points of a text, a surrogate without its partner being one. */
function points(text: string): number[] {
  return Array.from(text, (char) => char.codePointAt(0) as number);
}

/** Python's order of two strings. */
function sign(a: string, b: string): number {
  const [left, right] = [points(a), points(b)];
  const at = left.findIndex((point, i) => point !== right[i]);
  if (at < 0) return Math.sign(left.length - right.length);
  return at === right.length ? 1 : Math.sign(left[at] - right[at]);
}

describe('compareIds', () => {
  it.each([
    ['a', 'b'],
    ['a', 'aa'],
    ['', 'a'],
    ['req-10', 'req-9'],
    ['\uff5e', '\u{1f600}'],
    ['r\ue000', 'r\u{10000}'],
    ['\ud83d', '\ue000'],
    ['\udfff', '\ue000'],
    ['\udfff', '\u{10000}'],
    ['\ud83d\uff5e', '\u{1f600}'],
    ['\ud83da', '\u{1f600}'],
    ['\ud83d', '\u{1f600}'],
    ['\ud83d\ud83d', '\ud83d\u{1f600}'],
    ['\u{1f600}', '\u{1f601}'],
    ['\u{1f600}', '\u{1fa00}'],
    ['\u{1f600}\ue000', '\u{1f600}\u{1f600}'],
  ])('puts %j before %j', (first, second) => {
    expect(Math.sign(compareIds(first, second))).toBe(-1);
    expect(Math.sign(compareIds(second, first))).toBe(1);
    expect([compareIds(first, first), compareIds(second, second)]).toEqual([0, 0]);
  });

  it('orders random texts as Python does, surrogates without a partner among them', () => {
    const random = new Random(5);
    const units = ['a', 'b', '\ud7ff', '\ud83c', '\ud83d', '\ude00', '\ude01', '\ue000', '\uff5e'];
    const text = (): string => Array.from({ length: random.below(5) }, () => units[random.below(9)]).join('');
    for (let i = 0; i < 20_000; i++) {
      const [a, b] = [text(), text()];
      expect(Math.sign(compareIds(a, b)), JSON.stringify([a, b])).toBe(sign(a, b));
    }
  });
});

it('requests that tie in priority and arrival run in the order of the code points of their ids', () => {
  const driver = new Driver({ policy: 'priority', maxNumSeqs: 1 });
  const ids = ['\u{1f600}', '\uff5e', '\ud83d', 'b', '\ue000'];
  for (const id of ids) driver.add({ id, arrivalTime: 1, maxTokens: 1 });
  const inOrder = ['b', '\ud83d', '\ue000', '\uff5e', '\u{1f600}'];
  expect(driver.scheduler.inspect().waiting).toEqual(inOrder);
  const ran: string[] = [];
  while (driver.scheduler.hasWork()) {
    driver.step();
    ran.push(...driver.last.map((row) => row.split(':')[0]));
  }
  expect(ran).toEqual(inOrder);
});
