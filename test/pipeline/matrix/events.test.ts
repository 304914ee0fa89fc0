import { describe, expect, it } from 'vitest';
import { StageBench } from '../bench.js';
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

  /** The first segment of a session stops, and its client closes the session before the next input. */
  const closesAfterSegment = (bench: Bench, id: string): void => {
    bench.addSegment(id);
    bench.tick();
    bench.chunk(id, 0, true);
    bench.tick();
    expect(bench.scheduled).toEqual([id]);
    bench.abort(id);
    bench.tick();
  };

  it('as reported: a session that is closed after a segment counts as finished already, and keeps its place', () => {
    const bench = new ReportedBench({ ...ALL_GUARDS, sweep: false }, { maxNumSeqs: 2 });
    for (const id of ['x', 'y']) closesAfterSegment(bench, id);
    expect([bench.running, bench.statusOf('x')]).toEqual([['x', 'y'], 'FINISHED_STOPPED']);
    bench.add('z');
    bench.tick();
    bench.chunk('z', 0, true);
    for (let i = 0; i < 20; i++) bench.tick();
    expect([bench.scheduled, bench.statusOf('z')]).toEqual([[], 'WAITING']);
  });

  it('as reported, with the sweep: the place comes back, the request does not, and an idle neighbour goes too', () => {
    const bench = new ReportedBench(ALL_GUARDS, { maxNumSeqs: 2 });
    bench.addSegment('idle');
    bench.tick();
    bench.chunk('idle', 0, true);
    bench.tick();
    expect(bench.running).toEqual(['idle']);
    closesAfterSegment(bench, 'x');
    expect(bench.running).toEqual([]);
    expect([...bench.scheduler.requests.keys()]).toEqual(['idle', 'x']);
    expect(bench.scheduler.found).toEqual({ swept: 2 });
  });

  it('ours: a session that is closed after a segment ends, and no neighbour with it', () => {
    const bench = new OurBench({ maxNumSeqs: 2 });
    bench.addIdle('idle');
    for (const id of ['x', 'y', 'z']) closesAfterSegment(bench, id);
    expect([bench.scheduler.get('x'), bench.scheduler.get('idle') !== undefined]).toEqual([undefined, true]);
    expect(bench.running).toEqual([]);
    expect(bench.scheduler.stats()).toMatchObject({ finished: { abort: 3 } });
    expectWholeCapacity(bench);
  });

  it('our stage: sessions that are closed after a segment, more of them than it has places, leave it whole', async () => {
    const bench = new StageBench({ defaults: { maxTokens: 1 }, engine: { maxNumSeqs: 2 } as never });
    bench.submit('idle', { to: null });
    bench.chunk('idle', 1, [4]);
    for (const key of ['k1', 'k2', 'k3', 'k4']) {
      bench.submit(key, { to: null });
      bench.chunk(key, 1, [5, 6]);
      await bench.settle();
      bench.tell({ kind: 'abort', key });
    }
    bench.chunk('idle', 2, [7]);
    await bench.settle();
    const answered = bench.post.drain('output').map(({ key, number }) => `${key} ${number}`);
    expect(answered).toEqual(['idle 1', 'k1 1', 'k2 1', 'k3 1', 'k4 1', 'idle 2']);
    expect(bench.stage.stats()).toMatchObject({ requests: 1, parked: 1 });
    expect(bench.stage.stats().anomalies).toEqual({});
    bench.tell({ kind: 'abort', key: 'idle' });
    expect(bench.failure()).toBeUndefined();
  });

  /** Aborted while it waits for its chunk; its id is used again before the receiving thread has looked. */
  const usedAgain = (bench: ReportedBench, looks: boolean): void => {
    bench.addFed('x');
    bench.tick();
    bench.abort('x');
    if (looks) bench.adapter.poll();
    bench.addFed('x');
    bench.tick();
    bench.chunk('x', 0, true);
    bench.tick();
  };

  it('as reported: the chunk of a request whose id is used again goes to the former object, and the new one waits for ever', () => {
    const bench = new ReportedBench(ALL_GUARDS);
    usedAgain(bench, false);
    for (let i = 0; i < 100; i++) {
      bench.tick();
      expect(bench.scheduled).toEqual([]);
    }
    expect([bench.scheduler.requests.get('x')?.chunks, bench.running]).toEqual([0, ['x']]);
    const other = new ReportedBench(ALL_GUARDS);
    usedAgain(other, true);
    expect([other.scheduler.requests.get('x')?.chunks, other.scheduled]).toEqual([1, ['x']]);
  });

  it('our stage: chunks are for keys, so the new request has its own, and the late one of the former reaches nobody', async () => {
    const bench = new StageBench({ defaults: { maxTokens: 1 } });
    bench.submit('old', { to: null });
    bench.tell({ kind: 'abort', key: 'old' });
    bench.submit('new', { to: null });
    bench.chunk('old', 1, [9, 9, 9]);
    bench.chunk('new', 1, [5, 6]);
    bench.chunk('new', 2, [], true);
    await bench.settle();
    const [output, ...more] = bench.post.drain('output');
    expect([output.key, output.output.tokens.length, more]).toEqual(['new', 1, []]);
    const ended = bench.post.drain('ended').map(({ key, end }) => [key, end.numPromptTokens]);
    expect(ended).toEqual([['new', 2]]);
    expect(bench.stage.stats()).toMatchObject({ requests: 0, anomalies: { 'chunk-unknown': 1 } });
    expect(bench.failure()).toBeUndefined();
  });
});
