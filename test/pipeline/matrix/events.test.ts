import { describe, expect, it } from 'vitest';
import { ALL_GUARDS } from './as-reported/reported-guards.js';
import { OurBench, ReportedBench, UNGUARDED } from './events-bench.js';

type Bench = ReportedBench | OurBench;

/** Brings a request to run, and to wait among the running ones for its second chunk. */
function runsAndWaits(bench: Bench, id: string): void {
  bench.add(id);
  bench.tick();
  bench.chunk(id, 0);
  bench.tick();
  expect(bench.scheduled).toContain(id);
  bench.tick();
  expect([bench.statusOf(id), bench.running.includes(id)]).toEqual(['WAITING_FOR_CHUNK', true]);
}

/** That a stage of two places runs two new requests at once. */
function expectWholeCapacity(bench: Bench): void {
  for (const id of ['n0', 'n1']) bench.add(id);
  bench.tick();
  for (const id of ['n0', 'n1']) bench.chunk(id, 0, true);
  bench.tick();
  expect(bench.scheduled).toEqual(['n0', 'n1']);
}

describe('B0 an abort of a running request that waits for a chunk', () => {
  const options = { maxNumSeqs: 2, restoresStatus: false };
  const play = (bench: Bench): void => {
    runsAndWaits(bench, 'x');
    bench.abort('x');
  };

  it('as reported: nobody restores its status, so it is searched among the waiting, and stays', () => {
    const bench = new ReportedBench(UNGUARDED, options);
    play(bench);
    expect(bench.running).toEqual(['x']);
    expect(bench.scheduler.requests.has('x')).toBe(false);
  });

  it('ours: it leaves the list that it is in', () => {
    const bench = new OurBench(options);
    play(bench);
    expect(bench.running).toEqual([]);
    expect(bench.anomalies).toEqual({ 'realigned-status': 1 });
    expectWholeCapacity(bench);
  });
});

describe('B1 a request ends inside a step while it is parked', () => {
  const play = (bench: Bench): void => {
    runsAndWaits(bench, 'x');
    bench.tick(() => bench.endInside('x'));
  };

  it('as reported: it is put back as a zombie, and its late chunk kills the engine', () => {
    const bench = new ReportedBench({ ...UNGUARDED, getAndSkip: false });
    play(bench);
    expect(bench.running).toEqual(['x']);
    bench.chunk('x', 1);
    expect(() => bench.tick()).toThrow("KeyError: 'x'");
  });

  it('with the guards of the report it is purged, once', () => {
    const bench = new ReportedBench({ ...ALL_GUARDS, getAndSkip: false });
    play(bench);
    expect(bench.running).toEqual([]);
    bench.chunk('x', 1);
    bench.tick();
    expect(bench.scheduler.found).toEqual({ purged: 1 });
  });

  it('ours: it ends before the next step is planned, and its late chunk finds nobody', () => {
    const bench = new OurBench({ maxNumSeqs: 2 });
    play(bench);
    bench.chunk('x', 1);
    bench.tick();
    expect([bench.running, bench.scheduled]).toEqual([[], []]);
    expect(bench.anomalies).toEqual({});
    expectWholeCapacity(bench);
  });
});

describe('B2 an abort between processing and restoring', () => {
  const play = (bench: Bench): void => {
    runsAndWaits(bench, 'x');
    bench.tick(() => bench.abort('x'));
  };

  it('as reported, with the purge at processing alone: it is put back as a zombie', () => {
    const bench = new ReportedBench({ ...UNGUARDED, purgeAtProcess: true });
    play(bench);
    expect(bench.running).toEqual(['x']);
    expect(bench.scheduler.found).toEqual({ 'zombies put back': 1 });
  });

  it('the purge at restoring finds it', () => {
    const bench = new ReportedBench({ ...UNGUARDED, purgeAtProcess: true, purgeAtRestore: true });
    play(bench);
    expect(bench.running).toEqual([]);
    expect(bench.scheduler.found).toEqual({ purged: 1 });
  });

  it('ours: the abort is carried out before the next step', () => {
    const bench = new OurBench({ maxNumSeqs: 2 });
    play(bench);
    bench.tick();
    expect(bench.running).toEqual([]);
    expect(bench.anomalies).toEqual({});
    expectWholeCapacity(bench);
  });
});

describe('B3 the status from before the parking is stale', () => {
  /** Parked from the waiting queue, its only chunk comes, it runs, and is aborted before it would be parked again. */
  const play = (bench: Bench): void => {
    for (const id of ['x', 'y']) {
      bench.add(id);
      bench.tick();
      bench.chunk(id, 0, true);
      bench.tick();
      expect([bench.statusOf(id), bench.running.includes(id)]).toEqual(['RUNNING', true]);
      bench.abort(id);
    }
  };

  it('as reported: each abort loses a place, and after maxNumSeqs of them nobody is admitted', () => {
    const bench = new ReportedBench(UNGUARDED, { maxNumSeqs: 2 });
    play(bench);
    expect(bench.running).toEqual(['x', 'y']);
    bench.add('z');
    bench.tick();
    bench.chunk('z', 0, true);
    for (let i = 0; i < 20; i++) bench.tick();
    expect([bench.scheduled, bench.statusOf('z')]).toEqual([[], 'WAITING']);
    expect(bench.scheduler.found['skipped']).toBeGreaterThan(20);
  });

  it.each(['realign', 'sweep'] as const)('as reported, with %s: no place is lost', (guard) => {
    const bench = new ReportedBench({ ...UNGUARDED, [guard]: true }, { maxNumSeqs: 2 });
    play(bench);
    expect(bench.running).toEqual([]);
  });

  it('ours: no place is lost, and the stale statuses are counted', () => {
    const bench = new OurBench({ maxNumSeqs: 2 });
    play(bench);
    expect(bench.running).toEqual([]);
    expect(bench.anomalies).toEqual({ 'realigned-status': 2 });
    expectWholeCapacity(bench);
  });
});

describe('B4 a status that is out of step with the list at the end', () => {
  const play = (bench: Bench): void => {
    bench.add('x');
    bench.tick();
    bench.chunk('x', 0, true);
    bench.tick();
    bench.restamp('x', 'WAITING');
    bench.abort('x');
  };

  it('as reported: the request stays among the running; the sweep drops it', () => {
    const bench = new ReportedBench(UNGUARDED);
    play(bench);
    expect(bench.running).toEqual(['x']);
    const swept = new ReportedBench({ ...UNGUARDED, sweep: true });
    play(swept);
    expect([swept.running, swept.scheduler.found]).toEqual([[], { swept: 1 }]);
  });

  it('ours: it leaves', () => {
    const bench = new OurBench({ maxNumSeqs: 2 });
    play(bench);
    expect(bench.running).toEqual([]);
    expectWholeCapacity(bench);
  });
});

describe('B5 later siblings', () => {
  /** Somebody rewrites the status of an idle session, which is then aborted. */
  const drift = (bench: Bench): void => {
    bench.addIdle('x');
    bench.restamp('x', 'WAITING');
    bench.abort('x');
  };

  it('as reported: the count of idle sessions drifts, and the engine sleeps with a live request', () => {
    const bench = new ReportedBench(UNGUARDED);
    drift(bench);
    bench.add('y');
    expect(bench.hasWork).toBe(false);
  });

  it('ours: nothing is counted, so nothing drifts', () => {
    const bench = new OurBench();
    drift(bench);
    bench.add('y');
    expect(bench.hasWork).toBe(true);
  });

  it('as reported: a chunk that never comes is waited for without an end', () => {
    const bench = new ReportedBench(ALL_GUARDS);
    runsAndWaits(bench, 'x');
    for (let i = 0; i < 1000; i++) bench.tick();
    expect([bench.statusOf('x'), bench.running]).toEqual(['WAITING_FOR_CHUNK', ['x']]);
  });

  it('ours: the time limit of the request holds while it waits', () => {
    const bench = new OurBench();
    bench.scheduler.add({ id: 'x', prompt: [3, 3], maxTokens: 8, timeoutMs: 50 });
    for (let i = 0; i < 3; i++) bench.tick();
    bench.now = 50;
    bench.tick();
    expect([bench.scheduler.get('x'), bench.hasWork]).toEqual([undefined, false]);
    expect(bench.scheduler.stats()).toMatchObject({ finished: { error: 1 }, requestTimeouts: 1 });
  });

  /** Ends while it waits at the front for its first chunk, which comes late. */
  const comesBack = (bench: Bench, isLast = false): void => {
    bench.add('x');
    bench.add('y');
    bench.tick(() => bench.endInside('x'));
    bench.chunk('x', 0, isLast);
    bench.chunk('y', 0, true);
    bench.tick();
  };

  it('as reported: a finished request is admitted in the place of a live one', () => {
    const bench = new ReportedBench(UNGUARDED, { maxNumSeqs: 1 });
    comesBack(bench);
    expect([bench.running, bench.scheduled]).toEqual([['x'], []]);
  });

  it('as reported: if that chunk was its last one, the finished request kills the engine', () => {
    const bench = new ReportedBench(UNGUARDED, { maxNumSeqs: 1 });
    expect(() => comesBack(bench, true)).toThrow('Invalid request status: FINISHED_ABORTED');
  });

  it('ours: the live one is admitted', () => {
    const bench = new OurBench({ maxNumSeqs: 1 });
    comesBack(bench, true);
    expect([bench.running, bench.scheduled]).toEqual([['y'], ['y']]);
  });
});
