// The report says how many requests waited, and when the load exceeded the capacity.
import { describe, expect, it } from 'vitest';
import { Backlog, type Load } from '../../src/cli/replay/run/backlog.js';
import { replay, run } from './run-program.js';

/**
 * The report of a backlog about a queue, given its length in each of a hundred equal spans up to
 * the last arrival, and after.
 */
function loadOf(length: (share: number) => number, requests = 100): Load {
  const backlog = new Backlog(1000, requests);
  for (let i = 0; i < 100; i++) {
    backlog.read(10 * i, length(i / 100));
    backlog.hold(10 * i, 10 * (i + 1), length(i / 100));
  }
  backlog.read(1000, length(1));
  backlog.hold(1000, 5000, length(1));
  backlog.read(5000, 0);
  return backlog.load();
}

describe('a backlog', () => {
  it('says how many waited, in every quarter and at the last arrival', () => {
    const { waitingByQuarter, ...load } = loadOf((share) => Math.floor(share * 4) * 10);
    expect(load).toEqual({ arrivalSeconds: 1, waitingAtLastArrival: 40, exceedsCapacity: true });
    expect(waitingByQuarter?.map((mean) => Math.round(mean * 1e6) / 1e6)).toEqual([0, 10, 20, 30]);
  });

  it('splits what lasts over several quarters', () => {
    const backlog = new Backlog(1000, 10);
    backlog.hold(100, 2000, 8);
    backlog.read(2000, 3);
    expect(backlog.load().waitingByQuarter).toEqual([4.8, 8, 8, 8]);
  });

  it.each<[string, (share: number) => number, number?]>([
    ['no queue', () => 0],
    ['a steady queue', () => 50],
    ['a burst at the end', (share) => (share < 0.99 ? 0 : 90)],
    ['a burst that was worked off', (share) => (share < 0.5 ? 100 * share : 100 * (1 - share))],
    ['a queue that shrinks in the last quarter', (share) => (share < 0.75 ? 100 * share : 40)],
    ['a queue that begins to shrink at the end', (share) => (share < 1 ? 100 * share : 60)],
    ['a queue of few among many', (share) => 30 * share, 1000],
    ['a queue of three', (share) => 3 * share, 10],
  ])('takes %s for no overload', (_, length, requests) => {
    expect(loadOf(length, requests).exceedsCapacity).toBe(false);
  });

  it('knows nothing of a replay that did not come to the last arrival', () => {
    const backlog = new Backlog(1000, 100);
    for (let i = 0; i < 99; i++) {
      backlog.read(10 * i, i);
      backlog.hold(10 * i, 10 * (i + 1), i);
    }
    expect(backlog.load()).toEqual({
      arrivalSeconds: 1,
      waitingAtLastArrival: null,
      waitingByQuarter: null,
      exceedsCapacity: false,
    });
  });

  it('has no quarters where all requests arrive at once', () => {
    const backlog = new Backlog(0, 100);
    backlog.read(0, 90);
    backlog.hold(0, 500, 90);
    expect(backlog.load()).toMatchObject({
      waitingAtLastArrival: 90,
      waitingByQuarter: null,
      exceedsCapacity: false,
    });
  });
});

describe('a replay', () => {
  const overload = ['--requests', '300', '--request-rate', '100', '--max-num-seqs', '8'];

  it('says that its load exceeds the capacity', async () => {
    const { load, requests } = await replay(...overload);
    expect(load.exceedsCapacity).toBe(true);
    expect(load.waitingAtLastArrival).toBeGreaterThan(100);
    expect(requests.finished).toBe(300);
    const table = await run(['replay', ...overload]);
    const stdout = table.stdout.replaceAll('\n', ' ');
    expect(stdout).toContain(
      `OVERLOAD: the load exceeds the capacity. The queue grew until the last request arrived`,
    );
    expect(stdout).toContain(`${load.waitingAtLastArrival} of 300 requests were waiting`);
  });

  it('does not where everybody is served at once', async () => {
    const { load } = await replay('--requests', '300');
    expect(load).toMatchObject({ waitingAtLastArrival: 0, exceedsCapacity: false });
  });
});
