// Places, eviction and uses, against a plain model.
import { describe, expect, it } from 'vitest';
import { ABSENT, TierIndex } from '../../../src/connectors/offload/tiers/tier-index.js';
import { Random } from '../../support/engine-bench.js';

const PLACES = 6;

describe('the index of a tier', () => {
  it('drops the content whose last use is longest ago', () => {
    const index = new TierIndex(3);
    const places = [1n, 2n, 3n].map((key) => {
      const place = index.take();
      index.put(key, place);
      return place;
    });
    expect(places).toEqual([0, 1, 2]);
    index.touch(1n);
    index.use(index.get(2n));
    index.release(index.get(2n));
    expect([...index.oldest()]).toEqual([3n, 1n, 2n]);
    expect(index.take()).toBe(2);
    expect([index.get(3n), index.numEvictions]).toEqual([ABSENT, 1]);
  });

  it('keeps a place that is copied, also when its key was dropped, and gives it back once', () => {
    const index = new TierIndex(2);
    const place = index.take();
    index.put(1n, place);
    index.use(place);
    index.use(place);
    index.drop(1n);
    const other = index.take();
    expect([index.get(1n), other, index.take()]).toEqual([ABSENT, 1, ABSENT]);
    index.release(place);
    expect(index.take()).toBe(ABSENT);
    index.release(place);
    expect([index.take(), index.counts()]).toEqual([place, { free: 0, idle: 0, used: 0, filling: 2 }]);
  });

  it('keeps the first of two contents with one key', () => {
    const index = new TierIndex(2);
    const [first, second] = [index.take(), index.take()];
    index.put(1n, first);
    index.put(1n, second);
    expect([index.get(1n), index.counts()]).toEqual([first, { free: 1, idle: 1, used: 0, filling: 0 }]);
  });

  it.each([1, 2, 3, 4])('agrees with a plain model in a random life (seed %i)', (seed) => {
    const random = new Random(seed);
    const told = new Set<bigint>();
    const index = new TierIndex(PLACES, (change, key) => {
      if (change === 'stored' ? told.has(key) : !told.delete(key))
        throw new Error(`${key} is ${change} twice`);
      if (change === 'stored') told.add(key);
    });
    /** Keys with their places, the least recently used first. */
    let order: { key: bigint; place: number }[] = [];
    const users = new Map<number, number>();
    const filling = new Set<number>();
    const evictable = () => order.filter(({ place }) => !users.has(place));
    for (let i = 0; i < 4000; i++) {
      const key = BigInt(random.below(12));
      const known = order.find((each) => each.key === key);
      expect(told).toEqual(new Set(order.map((each) => each.key)));
      expect(index.get(key)).toBe(known?.place ?? ABSENT);
      switch (random.below(8)) {
        case 0:
        case 1: {
          const { free } = index.counts();
          const victim = evictable()[0];
          const place = index.take();
          if (free === 0) {
            expect(place).toBe(victim?.place ?? ABSENT);
            order = order.filter((each) => each !== victim);
          }
          if (place === ABSENT) break;
          expect([filling.has(place), users.has(place), order.some((each) => each.place === place)]).toEqual([
            false,
            false,
            false,
          ]);
          filling.add(place);
          break;
        }
        case 2:
        case 3: {
          const [place] = filling;
          if (place === undefined) break;
          filling.delete(place);
          index.put(key, place);
          if (known === undefined) order.push({ key, place });
          break;
        }
        case 4: {
          const [place] = filling;
          if (place === undefined) break;
          filling.delete(place);
          index.giveBack(place);
          break;
        }
        case 5:
          if (known === undefined) break;
          index.use(known.place);
          users.set(known.place, (users.get(known.place) ?? 0) + 1);
          break;
        case 6: {
          const [place] = users.keys();
          if (place === undefined) break;
          index.release(place);
          const left = (users.get(place) as number) - 1;
          if (left > 0) users.set(place, left);
          else users.delete(place);
          const at = order.findIndex((each) => each.place === place);
          if (left === 0 && at >= 0) order.push(...order.splice(at, 1));
          break;
        }
        default:
          if (random.chance(30)) {
            index.drop(key);
            order = order.filter((each) => each !== known);
          } else if (known !== undefined && !users.has(known.place)) {
            index.touch(key);
            order.push(...order.splice(order.indexOf(known), 1));
          }
      }
      expect([...index.oldest()]).toEqual(evictable().map((each) => each.key));
      const { free, idle, used, filling: numFilling } = index.counts();
      expect([idle, used, numFilling]).toEqual([evictable().length, users.size, filling.size]);
      expect(free + idle + used + numFilling).toBe(PLACES);
    }
    index.clear();
    expect([index.size, index.counts().idle]).toEqual([0, 0]);
  });
});
