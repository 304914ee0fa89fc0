// Each message counts once and in order, and a loss is noticed.
import { describe, expect, it } from 'vitest';
import { Arrivals } from '../../../src/pipeline/redis/arrivals.js';
import { Links } from '../../../src/pipeline/redis/links.js';
import { Random } from '../../support/engine-bench.js';

const OF = { sender: 'stage/a', instance: 'one', epoch: 1 };
const HOUR = 3_600_000;

describe('what has come of a sender', () => {
  it('is taken once, and what is missing is counted', () => {
    const arrivals = new Arrivals(true, () => 0);
    expect(arrivals.receive({ ...OF, first: 1 }, 3)).toEqual({ numDoubled: 0, numMissing: 0 });
    expect(arrivals.receive({ ...OF, first: 2 }, 4)).toEqual({ numDoubled: 2, numMissing: 0 });
    expect(arrivals.receive({ ...OF, first: 1 }, 2)).toEqual({ numDoubled: 2, numMissing: 0 });
    expect(arrivals.receive({ ...OF, first: 9 }, 1)).toEqual({ numDoubled: 0, numMissing: 3 });
    expect(arrivals.receive({ ...OF, first: 10 }, 1)).toEqual({ numDoubled: 0, numMissing: 0 });
  });

  it('begins at 1 for a party that is the first of its name, and anywhere for one that is not', () => {
    expect(new Arrivals(true, () => 0).receive({ ...OF, first: 4 }, 1)).toMatchObject({ numMissing: 3 });
    const later = new Arrivals(false, () => 0);
    expect(later.receive({ ...OF, first: 4 }, 1)).toMatchObject({ numMissing: 0 });
    expect(later.receive({ ...OF, first: 6 }, 1)).toMatchObject({ numMissing: 1 });
  });

  it('begins anew with another life of the sender, and the former one has no say any more', () => {
    const arrivals = new Arrivals(false, () => 0);
    arrivals.receive({ ...OF, first: 40 }, 2);
    expect(arrivals.receive({ ...OF, instance: 'two', first: 1 }, 2)).toEqual({
      numDoubled: 0,
      numMissing: 0,
    });
    expect(arrivals.receive({ ...OF, first: 42 }, 1)).toBeNull();
    expect(arrivals.receive({ ...OF, instance: 'two', first: 3 }, 1)).toEqual({
      numDoubled: 0,
      numMissing: 0,
    });
    expect(arrivals.receive({ ...OF, instance: 'three', first: 2 }, 1)).toMatchObject({ numMissing: 1 });
    for (const instance of ['one', 'two'])
      expect(arrivals.receive({ ...OF, instance, first: 1 }, 1)).toBeNull();
  });

  it('begins anew with another epoch, and an earlier one is stale', () => {
    const arrivals = new Arrivals(false, () => 0);
    arrivals.receive({ ...OF, first: 1 }, 5);
    expect(arrivals.receive({ ...OF, epoch: 4, first: 1 }, 1)).toEqual({ numDoubled: 0, numMissing: 0 });
    expect(arrivals.receive({ ...OF, first: 6 }, 1)).toBeNull();
  });

  it('is forgotten after an hour, when the sender has begun anew', () => {
    let now = 0;
    const arrivals = new Arrivals(true, () => now);
    const links = new Links('p:', () => now);
    const link = links.to('stage/b');
    const first = links.number(link);
    link.numWaiting = 0;
    arrivals.receive({ ...OF, epoch: link.epoch, first }, 1);
    now = HOUR / 2 + 1;
    links.tidy();
    arrivals.tidy();
    expect(arrivals.size).toBe(1);
    const anew = links.to('stage/b');
    expect(anew.epoch).toBe(link.epoch + 1);
    now = 2 * HOUR;
    arrivals.tidy();
    expect(arrivals.size).toBe(0);
    expect(arrivals.receive({ ...OF, epoch: anew.epoch, first: links.number(anew) }, 1)).toMatchObject({
      numMissing: 0,
    });
  });

  it('is known as long as it says something', () => {
    let now = 0;
    const arrivals = new Arrivals(true, () => now);
    for (let first = 1; first <= 4; first++) {
      arrivals.receive({ ...OF, first }, 1);
      now += HOUR / 2;
      arrivals.tidy();
      expect(arrivals.size).toBe(1);
    }
  });

  it('is dropped if it is of one of the last sixteen lives before; earlier ones are forgotten', () => {
    const arrivals = new Arrivals(false, () => 0);
    for (let life = 0; life <= 17; life++) arrivals.receive({ ...OF, instance: `${life}`, first: 1 }, 1);
    for (let life = 1; life <= 16; life++)
      expect(arrivals.receive({ ...OF, instance: `${life}`, first: 1 }, 1)).toBeNull();
    expect(arrivals.receive({ ...OF, instance: '0', first: 1 }, 1)).not.toBeNull();
  });

  it('arrives once and in order, however often and from wherever it is sent again (random)', () => {
    for (let seed = 0; seed < 300; seed++) {
      const random = new Random(seed);
      const arrivals = new Arrivals(random.chance(50), () => 0);
      const sent = 1 + random.below(40);
      const got: number[] = [];
      let missing = 0;
      let next = 1;
      while (next <= sent) {
        // A run as it goes out again after a broken connection: from any place before the first
        // entry that is not answered.
        const first = random.chance(90) ? 1 + random.below(next) : next + random.below(3);
        const count = 1 + random.below(5);
        const numbers = Array.from({ length: count }, (_, i) => first + i);
        const arrival = arrivals.receive({ ...OF, first }, count);
        if (arrival === null) throw new Error('stale');
        const isFirst = got.length === 0 && missing === 0;
        missing += arrival.numMissing;
        if (isFirst && arrival.numMissing === 0 && first > 1) missing += first - 1;
        got.push(...numbers.slice(arrival.numDoubled));
        next = Math.max(next, first + count);
      }
      expect(got).toEqual([...got].sort((a, b) => a - b));
      expect(new Set(got).size).toBe(got.length);
      expect(got.length + missing).toBe(next - 1);
    }
  });
});

describe('links', () => {
  it('a receiver that went away gets a new epoch; one that may lack messages is to be told', () => {
    const links = new Links('p:', () => 0);
    const link = links.to('client/c');
    expect([links.number(link), links.number(link)]).toEqual([1, 2]);
    links.skip(link);
    expect(links.behind).toBe(link);
    expect(links.number(link)).toBe(4);
    expect(links.behind).toBeUndefined();
    links.doubtAll();
    expect(links.behind).toBe(link);
    links.drop(link);
    expect(links.behind).toBeUndefined();
    expect(links.to('client/c')).toMatchObject({
      epoch: link.epoch + 1,
      next: 1,
      isKept: false,
      key: 'p:client/c',
    });
    expect(links.to('stage/s').isKept).toBe(true);
  });

  it('a link that was replaced is dropped once: the new one stays', () => {
    const links = new Links('', () => 0);
    const old = links.to('client/c');
    links.drop(old);
    const anew = links.to('client/c');
    links.drop(old);
    expect(links.to('client/c')).toBe(anew);
  });

  it('a link is kept as long as it is used', () => {
    let now = 0;
    const links = new Links('', () => now);
    const link = links.to('stage/s');
    for (let i = 0; i < 4; i++) {
      links.number(link);
      link.numWaiting = 0;
      now += HOUR / 4;
      links.tidy();
    }
    expect(links.to('stage/s')).toBe(link);
  });

  it('a link is kept as long as something waits on it', () => {
    let now = 0;
    const links = new Links('', () => now);
    const link = links.to('stage/s');
    links.number(link);
    now = HOUR;
    links.tidy();
    expect(links.to('stage/s')).toBe(link);
  });
});
