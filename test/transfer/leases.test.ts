// Leases: granted, renewed, released, expired.
import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/index.js';
import { Leases } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { seeded } from '../support/core-bench.js';

describe('leases', () => {
  it('last as long as they were granted for, and are handed out once', () => {
    const leases = new Leases(new Anomalies(false));
    leases.grant(1, 100, 30);
    leases.grant(2, 100, 10);
    expect([leases.size, leases.nextDeadline]).toEqual([2, 110]);
    expect(leases.expire(109.9)).toEqual([]);
    expect(leases.expire(110)).toEqual([2]);
    expect(leases.expire(200)).toEqual([1]);
    expect(leases.expire(300)).toEqual([]);
    expect([leases.size, leases.nextDeadline]).toEqual([0, Number.POSITIVE_INFINITY]);
  });

  it('that are over are found behind one that was renewed', () => {
    const leases = new Leases(new Anomalies(false));
    for (const key of [1, 2, 3]) leases.grant(key, 0, 10 + key);
    expect(leases.renew(1, 5, 100)).toBe(true);
    expect(leases.expire(50)).toEqual([2, 3]);
    expect(leases.expire(105)).toEqual([1]);
  });

  it('that are over stay over, whether anybody swept them or not', () => {
    const anomalies = new Anomalies(false);
    const leases = new Leases(anomalies);
    leases.grant(1, 0, 10);
    expect([leases.mayRead(1, 9), leases.mayRead(1, 10), leases.renew(1, 10, 50)]).toEqual([
      true,
      false,
      false,
    ]);
    expect(leases.expire(11)).toEqual([1]);
    expect([leases.mayRead(1, 5), leases.renew(1, 5, 50), leases.release(1)]).toEqual([false, false, false]);
    expect(anomalies.toObject()).toEqual({ 'expired-lease': 4 });
  });

  it('that were released cannot be read, renewed or expire', () => {
    const leases = new Leases<string>(new Anomalies(false));
    leases.grant('a', 0, 10);
    leases.grant('b', 0, 20);
    expect([leases.release('a'), leases.release('a')]).toEqual([true, false]);
    expect([leases.mayRead('a', 1), leases.renew('a', 1, 10), leases.mayRead('b', 1)]).toEqual([
      false,
      false,
      true,
    ]);
    expect(leases.expire(100)).toEqual(['b']);
    leases.grant('a', 100, 1);
    expect(leases.mayRead('a', 100)).toBe(true);
  });

  it('are not shortened by a renewal', () => {
    const leases = new Leases(new Anomalies(false));
    leases.grant(1, 0, 100);
    expect(leases.renew(1, 10, 20)).toBe(true);
    expect(leases.nextDeadline).toBe(100);
  });

  it('are one for each key while they last', () => {
    const leases = new Leases(new Anomalies(false));
    expect(leases.grant(1, 0, 10)).toBe(false);
    expect(codeOf(() => leases.grant(1, 0, 10))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => leases.grant(1, 9.9, 100))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(leases.nextDeadline).toBe(10);
    leases.expire(50);
    expect(leases.grant(1, 50, 10)).toBe(false);
    expect(leases.nextDeadline).toBe(60);
  });

  it('that are over stand in the way of no new one, whether anybody swept them or not', () => {
    const leases = new Leases(new Anomalies(false));
    for (const key of [1, 2, 3]) leases.grant(key, 0, 10);
    expect(leases.grant(2, 10, 20)).toBe(true);
    // The new one is the only one: it lasts, and is handed out once.
    expect([leases.size, leases.mayRead(2, 29), leases.nextDeadline]).toEqual([3, true, 10]);
    expect(leases.expire(29).sort()).toEqual([1, 3]);
    expect([leases.expire(30), leases.size, leases.expire(99)]).toEqual([[2], 0, []]);
  });

  it('tell how long they last yet, as a duration and not as an instant of the clock', () => {
    const anomalies = new Anomalies(false);
    const leases = new Leases(anomalies);
    leases.grant(1, 5000, 30);
    const at = (now: number) => leases.remaining(1, now);
    expect([at(5000), at(5029.5), at(5030), at(9000), leases.remaining(2, 5000)]).toEqual([30, 0.5, 0, 0, 0]);
    leases.renew(1, 5010, 100);
    expect(at(5010)).toBe(100);
    leases.release(1);
    expect([at(5010), anomalies.toObject()]).toEqual([0, {}]);
  });

  it('agree with a list that is searched whole, over random lives', () => {
    const random = seeded(8);
    const leases = new Leases(new Anomalies(false));
    const model = new Map<number, number>();
    let now = 0;
    let renewed = 0;
    let replaced = 0;
    for (let i = 0; i < 6000; i++) {
      const key = random(40);
      const ms = 1 + random(60);
      switch (random(5)) {
        case 0:
          if ((model.get(key) ?? 0) > now) {
            expect(codeOf(() => leases.grant(key, now, ms))).toBe('ERR_BLOCKSTEP_BAD_ARG');
          } else {
            expect(leases.grant(key, now, ms)).toBe(model.has(key));
            if (model.has(key)) replaced++;
            model.set(key, now + ms);
          }
          break;
        case 1: {
          const lives = (model.get(key) ?? 0) > now;
          expect(leases.renew(key, now, ms)).toBe(lives);
          if (lives) model.set(key, Math.max(model.get(key)!, now + ms));
          if (lives) renewed++;
          break;
        }
        case 2:
          if (random(3) === 0) expect(leases.release(key)).toBe(model.delete(key));
          break;
        case 3:
          expect(leases.mayRead(key, now)).toBe((model.get(key) ?? 0) > now);
          break;
        default: {
          now += random(9);
          // Nobody sweeps as soon as a lease is over.
          if (random(4) > 0) break;
          const over = [...model].filter(([, deadline]) => deadline <= now);
          const found = leases.expire(now);
          expect(found.map((one) => model.get(one))).toEqual(
            over.map(([, deadline]) => deadline).sort((a, b) => a - b),
          );
          expect(new Set(found)).toEqual(new Set(over.map(([one]) => one)));
          for (const one of found) model.delete(one);
        }
      }
      expect([leases.size, leases.nextDeadline]).toEqual([model.size, Math.min(...model.values())]);
    }
    expect(renewed).toBeGreaterThan(100);
    expect(replaced).toBeGreaterThan(50);
  });
});
