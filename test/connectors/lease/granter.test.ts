import { describe, expect, it } from 'vitest';
import type { Grant, Reading } from '../../../src/connectors/lease/producer/grant.js';
import { Granter } from '../../../src/connectors/lease/producer/granter.js';
import { OrderLog } from '../../../src/connectors/lease/wire/order-log.js';
import { leaseKey } from '../../../src/connectors/lease/wire/orders.js';

const BLOCKS = [Int32Array.of(3, 4)];

function granter() {
  const told: string[] = [];
  const granted = new Granter({
    opened: ({ transfer }) => void told.push(`opened ${transfer}`),
    closed: ({ transfer }, reason) => void told.push(`closed ${transfer}: ${reason}`),
    cancelled: ({ transfer }) => void told.push(`cancelled ${transfer}`),
    unwanted: (grant) => void told.push(`unwanted ${grant.key}`),
  });
  granted.begin({ life: 'life', leaseMs: 300, maxQueueMs: 3000 });
  const grant = (number: number, readableFrom = -1, now = 0) =>
    granted.grant(
      {
        kind: 'grant',
        handle: 10 + number,
        key: key(number),
        blocks: BLOCKS,
        fewest: 0,
        most: 8,
        readableFrom,
      },
      now,
    );
  return { granted, grant, told };
}

const key = (number: number) => leaseKey('life', number);
const reader = (transfer: string): Reading => ({ peer: 'd', life: 'other', transfer });

describe('a lease that waits for a step', () => {
  it('is granted when the step was settled and updated', () => {
    const { granted, grant, told } = granter();
    grant(1, 5);
    granted.open(key(1), reader('a'), 0);
    granted.settle(4);
    granted.judge([], 0);
    expect(told).toEqual([]);
    granted.settle(5);
    expect(told).toEqual([]);
    granted.judge([], 0);
    expect(told).toEqual(['opened a']);
  });

  it('is not granted if a step named the request as failed', () => {
    const { granted, grant, told } = granter();
    grant(1, 5);
    granted.open(key(1), reader('a'), 0);
    granted.settle(5);
    granted.judge([11], 0);
    expect(told).toEqual(['closed a: its KV was not computed']);
    expect(granted.drainSent()).toEqual([11]);
    expect(granted.beat(key(1), 0)).toBe('gone');
  });

  it('is not granted if the failure was known before the order came', () => {
    const { granted, grant } = granter();
    granted.settle(5);
    granted.judge([11, 12], 0);
    grant(1, 5);
    expect(granted.drainSent()).toEqual([11]);
    // Nothing in flight wrote these blocks: they were computed again since.
    grant(2, -1);
    expect(granted.beat(key(2), 0)).toBe('alive');
  });
});

describe('a lease', () => {
  it('lasts for as long as it is renewed, and is refused from then on', () => {
    const { granted, grant } = granter();
    grant(1);
    for (let now = 0; now < 3000; now += 150) {
      expect(granted.beat(key(1), now)).toBe('alive');
      granted.expire(now);
    }
    granted.open(key(1), reader('a'), 2850);
    granted.expire(3049);
    expect(granted.size).toBe(1);
    // Nobody has swept yet, and yet nothing of it counts.
    expect(granted.confirm('a', 3050)).toBe(false);
    expect(granted.reading('a', 3050)).toBeNull();
    expect(granted.beat(key(1), 3050)).toBe('gone');
    granted.expire(3050);
    expect(granted.drainSent()).toEqual([11]);
    expect(granted.counts).toMatchObject({ granted: 1, expired: 1, read: 0 });
  });

  it('is kept for a reader that only queues for so long, and for one that reads as long as that takes', () => {
    const { granted, grant } = granter();
    grant(1);
    grant(2);
    for (let now = 0; now <= 3000; now += 150)
      expect([1, 2].map((number) => granted.beat(key(number), now))).toEqual(['alive', 'alive']);
    granted.open(key(2), reader('a'), 3001);
    expect([1, 2].map((number) => granted.beat(key(number), 3002))).toEqual(['gone', 'alive']);
    expect(granted.drainSent()).toEqual([11]);
    expect(granted.confirm('a', 3003)).toBe(true);
    expect(granted.counts).toMatchObject({ expired: 1, read: 1 });
  });

  it('is read once: a question that is repeated gets the same answer', () => {
    const { granted, grant, told } = granter();
    grant(1);
    granted.open(key(1), reader('a'), 0);
    granted.open(key(1), reader('a'), 0);
    expect(granted.confirm('a', 1)).toBe(true);
    expect(granted.confirm('a', 2)).toBe(true);
    granted.open(key(1), reader('b'), 2);
    expect(told).toEqual(['opened a', 'opened a', 'closed b: its lease is over']);
    expect(granted.drainSent()).toEqual([11]);
  });

  it.each(['early', 'granted'])('has one reader at a time, who is not disturbed by others (%s)', (when) => {
    const { granted, grant, told } = granter();
    if (when === 'granted') grant(1);
    granted.open(key(1), reader('a'), 0);
    granted.open(key(1), { ...reader('b'), life: 'third' }, 0);
    expect(granted.release(key(1), 'third')).toBe(true);
    if (when === 'early') grant(1);
    expect(told.toSorted()).toEqual(['closed b: another one reads it', 'opened a']);
    expect(granted.confirm('b', 1)).toBe(false);
    expect(granted.confirm('a', 1)).toBe(true);
  });

  it.each(['early', 'granted'])('is over when its reader gives it back (%s)', (when) => {
    const { granted, grant, told } = granter();
    if (when === 'granted') grant(1);
    granted.open(key(1), reader('a'), 0);
    expect(granted.release(key(1), 'other')).toBe(true);
    if (when === 'early') grant(1);
    expect(told.at(-1)).toBe('closed a: released');
    expect(granted.drainSent()).toEqual([11]);
  });

  it('that has ended keeps its blocks from others while a copy of this side reads them', () => {
    const { granted, grant } = granter();
    grant(1);
    granted.open(key(1), reader('a'), 0);
    const open = granted.reading('a', 0) as Grant;
    granted.beginCopy(open);
    granted.expire(300);
    expect(granted.counts.expired).toBe(1);
    expect(granted.drainSent()).toEqual([]);
    expect([granted.isIdle, granted.size]).toEqual([false, 1]);
    granted.endCopy(open);
    expect(granted.drainSent()).toEqual([11]);
  });

  it('is over at once if its KV was lost, and its blocks go back when no copy reads them', () => {
    const { granted, grant, told } = granter();
    grant(1);
    granted.open(key(1), reader('a'), 0);
    const open = granted.reading('a', 0) as Grant;
    granted.beginCopy(open);
    granted.revoke(11, true);
    expect(told).toEqual(['opened a', 'closed a: its KV was lost', `unwanted ${key(1)}`]);
    expect(granted.confirm('a', 1)).toBe(false);
    expect(granted.drainSent()).toEqual([]);
    granted.endCopy(open);
    expect(granted.drainSent()).toEqual([11]);
    expect(granted.isIdle).toBe(true);
  });

  it('that is to be read before it is granted is opened with the grant', () => {
    const { granted, grant, told } = granter();
    granted.open(key(1), reader('a'), 0);
    expect([told, granted.numEarly]).toEqual([[], 1]);
    grant(1);
    expect(told).toEqual(['opened a']);
    expect(granted.confirm('a', 1)).toBe(true);
  });

  it('of another life is gone, one that comes yet is early, and words about it are bounded', () => {
    const { granted, grant } = granter();
    grant(1);
    expect(granted.beat(leaseKey('dead', 1), 0)).toBe('gone');
    expect(granted.beat(key(2), 0)).toBe('early');
    expect(granted.release(leaseKey('dead', 9), 'other')).toBe(false);
    for (let number = 2; number < 5000; number++) granted.release(key(number), 'other');
    expect(granted.numEarly).toBe(1024);
    grant(4999);
    expect(granted.drainSent()).toEqual([5009]);
    expect(granted.counts.released).toBe(1);
  });
});

describe('the log of orders', () => {
  const heading = { settings: 's', life: 'l', leaseMs: 1, maxQueueMs: 3000 };
  const forgo = (handle: number) => ({ kind: 'forgo', handle }) as const;

  it('repeats an order with every plan until every rank has taken it', () => {
    const log = new OrderLog(2);
    log.add(forgo(1));
    log.add(forgo(2));
    expect(log.metadata(heading, [])).toMatchObject({ first: 0, orders: [forgo(1), forgo(2)] });
    log.acknowledge(0, 2);
    expect(log.metadata(heading, []).orders).toHaveLength(2);
    log.acknowledge(1, 1);
    expect(log.metadata(heading, [])).toMatchObject({ first: 1, orders: [forgo(2)] });
    log.acknowledge(1, 2);
    expect(log.metadata(heading, [])).toBe(log.metadata(heading, []));
    log.add(forgo(3));
    expect(log.metadata(heading, [])).toMatchObject({ first: 2, orders: [forgo(3)] });
    log.acknowledge(5, 9);
    log.acknowledge(0, 1);
    expect(log.size).toBe(1);
  });
});
