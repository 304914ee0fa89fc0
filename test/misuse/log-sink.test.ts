// A log sink that throws, calls back, or changes the bytes.
import { describe, expect, it } from 'vitest';
import type { BlockstepError } from '../../src/index.js';
import { type LogSink, readLog, replayCommands, replayInputs } from '../../src/replay.js';
import { hostile, MINE } from './bad-values.js';
import {
  Bench,
  benchIn,
  codeOf,
  draftsOf,
  errorOf,
  expectOwnedSlots,
  prompt,
  resultOf,
  snapshot,
} from './bench.js';

/** A sink that can be told to fail, or to do something else, at its n-th write from now. */
class TestSink implements LogSink {
  readonly parts: Uint8Array[] = [];
  countdown = 0;
  act: (bytes: Uint8Array) => void = hostile;

  write(bytes: Uint8Array): void {
    // The bytes are the sink's own from here on, so `act` may leave nothing of them.
    const part = Uint8Array.from(bytes);
    if (this.countdown > 0 && --this.countdown === 0) this.act(bytes);
    this.parts.push(part);
  }

  bytes(): Uint8Array {
    const all = new Uint8Array(this.parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of this.parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }
}

/** Calls that are logged, each in a state in which it is in order. */
const CALLS: Record<
  string,
  { state: 'running' | 'in flight' | 'draining'; call: (bench: Bench) => unknown }
> = {
  add: {
    state: 'running',
    call: ({ scheduler }) => scheduler.add({ id: 'n', prompt: prompt(5), maxTokens: 2 }),
  },
  chunk: { state: 'running', call: ({ scheduler }) => scheduler.addChunk('b', { prompt: prompt(3) }) },
  end: { state: 'running', call: ({ scheduler }) => scheduler.endSession('b') },
  abort: { state: 'running', call: ({ scheduler }) => scheduler.abort(['a', 'c']) },
  abortAll: { state: 'in flight', call: ({ scheduler }) => scheduler.abortAll() },
  schedule: { state: 'running', call: (bench) => bench.schedule() },
  update: { state: 'in flight', call: ({ scheduler, plan }) => scheduler.update(plan, resultOf(plan)) },
  failStep: { state: 'in flight', call: ({ scheduler, plan }) => scheduler.failStep(plan) },
  drafts: {
    state: 'running',
    call: ({ scheduler, plan }) => scheduler.updateDraftTokens(plan, draftsOf(plan)),
  },
  reset: { state: 'running', call: ({ scheduler }) => scheduler.resetPrefixCache({ resetRunning: true }) },
  pause: { state: 'running', call: ({ scheduler }) => scheduler.pause('new') },
  hold: {
    state: 'running',
    call: ({ scheduler }) => scheduler.hold(scheduler.get('a')!.handle, 'load', 'x'),
  },
};
const NAMES = Object.keys(CALLS);
/** More writes than any one call makes. */
const MANY = 40;

/** Runs one call whose n-th write does `act`; undefined if the call does not write as often. */
function provoke(name: string, n: number, act: (bench: Bench, bytes: Uint8Array) => void) {
  const sink = new TestSink();
  const { state, call } = CALLS[name];
  const bench = benchIn(state, { log: sink });
  const before = snapshot(bench.scheduler);
  sink.act = (bytes) => act(bench, bytes);
  sink.countdown = n;
  let error: unknown;
  try {
    call(bench);
  } catch (thrown) {
    error = thrown;
  }
  const happened = sink.countdown === 0;
  sink.countdown = 0;
  return happened ? { bench, sink, before, error, call } : undefined;
}

describe('a log sink that throws', () => {
  it.each(NAMES)(
    'in %s: the caller gets its error, and the scheduler is as before or says that it is not',
    (name) => {
      let writes = 0;
      for (let n = 1; n < MANY; n++) {
        const found = provoke(name, n, hostile);
        if (found === undefined) break;
        writes++;
        const { bench, before, error } = found;
        expect(error, `write ${n}`).toBe(MINE);
        expectSettled(bench, before, `${name}, write ${n}`);
      }
      expect(writes).toBeGreaterThan(0);
    },
  );

  it('in the constructor: the caller gets its error', () => {
    for (let n = 1; n < 5; n++) {
      const sink = new TestSink();
      sink.countdown = n;
      if (n <= 2) expect(errorOf(() => new Bench({ log: sink }))).toBe(MINE);
    }
  });

  it('in dispose: the memory is freed all the same', () => {
    const sink = new TestSink();
    const { scheduler } = benchIn('running', { log: sink });
    scheduler.core.push(3, scheduler.get('a')!.slot, 0); // a release that no call has handed to the log yet
    sink.countdown = 1;
    try {
      scheduler.dispose();
    } catch (error) {
      expect(error).toBe(MINE);
    }
    expect(sink.countdown).toBe(0);
    expect(codeOf(() => scheduler.stats())).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => scheduler.core.native.digest())).toBe('ERR_BLOCKSTEP_DISPOSED');
    scheduler.dispose();
  });

  it('for good: dispose works none the less', () => {
    const sink = new TestSink();
    const { scheduler } = benchIn('running', { log: sink });
    sink.write = hostile;
    for (const call of Object.values(CALLS)) {
      try {
        call.call({ scheduler } as Bench);
      } catch {}
    }
    try {
      scheduler.dispose();
    } catch (error) {
      expect(error).toBe(MINE);
    }
    expect(codeOf(() => scheduler.core.native.digest())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  function expectSettled(bench: Bench, before: unknown, what: string): void {
    const { scheduler } = bench;
    let refusal: BlockstepError | undefined;
    try {
      scheduler.stats();
      scheduler.verify();
    } catch (error) {
      refusal = error as BlockstepError;
    }
    if (refusal === undefined) {
      expect(snapshot(scheduler), what).toEqual(before);
      expectOwnedSlots(scheduler);
    } else {
      expect([what, refusal.code, refusal.cause]).toEqual([what, 'ERR_BLOCKSTEP_INVARIANT', MINE]);
      expect(codeOf(() => scheduler.schedule())).toBe('ERR_BLOCKSTEP_INVARIANT');
    }
    scheduler.dispose();
  }
});

describe('a log sink that calls back', () => {
  it.each(NAMES)('in %s is refused, and the log stays whole', (name) => {
    for (let n = 1; n < MANY; n++) {
      let code: unknown;
      const found = provoke(name, n, ({ scheduler }) => {
        code = codeOf(() => scheduler.add({ id: 'inner', prompt: prompt(4), maxTokens: 1 }));
        expect(codeOf(() => scheduler.dispose())).toBe('ERR_BLOCKSTEP_REENTRANT');
      });
      if (found === undefined) return;
      const { bench, sink, error } = found;
      expect([n, error, code]).toEqual([n, undefined, 'ERR_BLOCKSTEP_REENTRANT']);
      const digest = bench.scheduler.digest();
      bench.scheduler.dispose();
      expect(replayCommands(sink.bytes()).digest).toBe(digest);
    }
    throw new Error('a call writes more often than this test believes');
  });

  it('in dispose is refused', () => {
    const sink = new TestSink();
    const { scheduler } = benchIn('running', { log: sink });
    scheduler.core.push(3, scheduler.get('a')!.slot, 0);
    let code: unknown;
    sink.act = () => {
      code = codeOf(() => scheduler.add({ id: 'inner', prompt: prompt(4), maxTokens: 1 }));
    };
    sink.countdown = 1;
    scheduler.dispose();
    expect(['ERR_BLOCKSTEP_REENTRANT', 'ERR_BLOCKSTEP_DISPOSED']).toContain(code);
  });
});

describe('a log sink that does as it likes with the bytes', () => {
  const deeds: Record<string, (bytes: Uint8Array) => void> = {
    'takes their buffer away': ({ buffer }) => structuredClone(buffer, { transfer: [buffer as ArrayBuffer] }),
    'writes into them': (bytes) => bytes.fill(255),
  };

  it.each(Object.keys(deeds).flatMap((deed) => NAMES.map((name) => [deed, name])))(
    '%s, in %s',
    (deed, name) => {
      const { state, call } = CALLS[name];
      const twin = benchIn(state, { log: { write() {} } });
      call(twin);
      for (let n = 1; n < MANY; n++) {
        const found = provoke(name, n, (_bench, bytes) => deeds[deed](bytes));
        if (found === undefined) return;
        expect([n, found.error]).toEqual([n, undefined]);
        expect(snapshot(found.bench.scheduler), `write ${n}`).toEqual(snapshot(twin.scheduler));
        found.bench.scheduler.verify();
        expect(replayCommands(found.sink.bytes()).digest, `write ${n}`).toBe(found.bench.scheduler.digest());
      }
      throw new Error('a call writes more often than this test believes');
    },
  );
});

describe('the log', () => {
  it('of a scheduler that refused many calls replays to its state', () => {
    const sink = new TestSink();
    const bench = benchIn('running', { log: sink });
    const { scheduler } = bench;
    for (const bad of [1n, {}, [1n], ['a', -1]]) codeOf(() => scheduler.abort(bad as never));
    codeOf(() => scheduler.add({ id: 'a', prompt: prompt(4), maxTokens: 1 }));
    codeOf(() => scheduler.add({ id: 'x', prompt: Int32Array.of(-1), maxTokens: 1 }));
    codeOf(() => scheduler.update({} as never, {} as never));
    codeOf(() => scheduler.resetPrefixCache(1 as never));
    bench.step();
    const digest = scheduler.digest();
    expect(replayCommands(sink.bytes()).digest).toBe(digest);
    const replayed = replayInputs(sink.bytes());
    expect(replayed.digest()).toBe(digest);
    expect([...readLog(sink.bytes())][0].kind).toBe('header');
  });
});
