// The time that queued requests will take at the recent rate.
import { describe, expect, it } from 'vitest';
import type { Request } from '../../../src/scheduler/request/request.js';
import { Backlog } from '../../../src/scheduler/state/backlog.js';
import { Random } from '../../support/driver.js';

const request = (numPromptTokens: number) => ({ numPromptTokens, backlogTokens: 0 }) as Request;

/** One request is admitted every `everyMs` milliseconds, of 10 tokens, from time `from` on; one more always waits. */
function served(backlog: Backlog, count: number, everyMs: number, from = 0): number {
  const waiting = [request(10)];
  backlog.enter(waiting[0], from);
  for (let i = 1; i <= count; i++) {
    waiting.push(request(10));
    backlog.enter(waiting[i], from + (i - 1) * everyMs);
    backlog.leave(waiting[i - 1], from + i * everyMs, true);
  }
  backlog.leave(waiting[count], from + count * everyMs, false);
  return from + count * everyMs;
}

describe('the time that so many admissions take', () => {
  it('is not known before the first, nor while no time passes', () => {
    const backlog = new Backlog();
    const [a, b] = [request(5), request(5)];
    backlog.enter(a, 100);
    backlog.enter(b, 100);
    expect(backlog.msToAdmit(1, 1, 900)).toBe(null);
    backlog.leave(a, 100, true);
    expect(backlog.msToAdmit(1, 1, 100)).toBe(null);
    expect(backlog.msToAdmit(1, 1, 103)).toBe(3);
  });

  it('is that of the slower of both: requests and tokens', () => {
    const backlog = new Backlog();
    const now = served(backlog, 20, 50);
    expect(backlog.msToAdmit(1, 0, now)).toBe(50);
    expect(backlog.msToAdmit(4, 0, now)).toBe(200);
    expect(backlog.msToAdmit(0, 10, now)).toBe(50);
    expect(backlog.msToAdmit(1, 25, now)).toBe(125);
    expect(backlog.msToAdmit(3, 1, now)).toBe(150);
  });

  it('follows what it does lately', () => {
    const backlog = new Backlog();
    let now = served(backlog, 1000, 100);
    expect(backlog.msToAdmit(1, 0, now)).toBe(100);
    now = served(backlog, 2000, 10, now);
    // Admissions that were halved eight times or more count for nothing.
    expect(backlog.msToAdmit(100, 0, now)! / 100).toBeCloseTo(10, 0);
  });

  it('leaves out the time in which nothing waited, however long', () => {
    const backlog = new Backlog();
    const now = served(backlog, 10, 20);
    served(backlog, 10, 20, now + 1e9);
    expect(backlog.msToAdmit(1, 0, now + 1e9 + 200)).toBe(20);
  });

  it('grows while nothing is admitted', () => {
    const backlog = new Backlog();
    const now = served(backlog, 10, 20);
    backlog.enter(request(10), now);
    expect(backlog.msToAdmit(1, 0, now + 200)).toBe(40);
    expect(backlog.msToAdmit(1, 0, now + 1800)).toBe(200);
  });

  it('counts the time that those waited who left without being admitted, and not them', () => {
    const backlog = new Backlog();
    const [a, b] = [request(10), request(10)];
    backlog.enter(a, 0);
    backlog.enter(b, 0);
    backlog.leave(a, 30, false);
    expect(backlog.msToAdmit(1, 0, 30)).toBe(null);
    backlog.leave(b, 40, true);
    expect(backlog.msToAdmit(1, 0, 40)).toBe(40);
  });

  it('knows no time that goes back', () => {
    const backlog = new Backlog();
    const all = [request(10), request(10), request(10)];
    for (const one of all) backlog.enter(one, 1000);
    backlog.leave(all[0], 400, true);
    expect(backlog.msToAdmit(1, 0, 300)).toBe(null);
    backlog.leave(all[1], 406, true);
    expect(backlog.msToAdmit(1, 0, 100)).toBe(3);
  });

  it.each([1, 2, 3])('seed %i: is never negative and never no number, whatever the clock does', (seed) => {
    const random = new Random(seed);
    const backlog = new Backlog();
    const waiting: Request[] = [];
    let now = 0;
    for (let i = 0; i < 3000; i++) {
      now += random.below(20) - 6;
      if (random.chance(55)) {
        waiting.push(request(1 + random.below(50)));
        backlog.enter(waiting.at(-1)!, now);
      } else if (waiting.length > 0) {
        const [one] = waiting.splice(random.below(waiting.length), 1);
        backlog.leave(one, now, random.chance(70));
        // Once is enough.
        backlog.leave(one, now, true);
      }
      const tokens = waiting.reduce((sum, { numPromptTokens }) => sum + numPromptTokens, 0);
      expect([backlog.requests, backlog.tokens]).toEqual([waiting.length, tokens]);
      const ms = backlog.msToAdmit(random.below(9), random.below(99), now);
      if (ms !== null) expect(Number.isSafeInteger(ms) && ms >= 0).toBe(true);
    }
  });
});
