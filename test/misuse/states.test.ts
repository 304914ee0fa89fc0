// Every call in every state; calls from diagnostics subscribers and from getters of arguments; a
// wrong receiver.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { type BlockstepError, Scheduler } from '../../src/index.js';
import { hostile, MINE } from './bad-values.js';
import {
  Bench,
  benchIn,
  codeOf,
  codeOfError,
  draftsOf,
  errorOf,
  LIVE_STATES,
  mirror,
  prompt,
  resultOf,
  STALE_HANDLE,
  snapshot,
} from './bench.js';
import { checkCodes, sameSteps } from './misuse.js';

const foreignPlan = benchIn('in flight').plan;

/** Calls with good arguments that a scheduler must refuse in every state in which it refuses to work. */
function changes({ scheduler, plan = foreignPlan }: Bench): Record<string, () => unknown> {
  return {
    add: () => scheduler.add({ id: 'new', prompt: prompt(4), maxTokens: 1 }),
    addChunk: () => scheduler.addChunk('a', { prompt: prompt(1) }),
    endSession: () => scheduler.endSession('a'),
    abortAll: () => scheduler.abortAll(),
    schedule: () => scheduler.schedule(),
    update: () => scheduler.update(plan, resultOf(plan)),
    failStep: () => scheduler.failStep(plan),
    updateDraftTokens: () => scheduler.updateDraftTokens(plan, draftsOf(plan)),
    replaceDraftTokens: () => scheduler.replaceDraftTokens(plan, draftsOf(plan)),
    resetPrefixCache: () => scheduler.resetPrefixCache(),
    pause: () => scheduler.pause('all'),
    resume: () => scheduler.resume(),
    hold: () => scheduler.hold(STALE_HANDLE, 'load', 'x'),
    complete: () => scheduler.complete(STALE_HANDLE, 'load', 'x'),
    verify: () => scheduler.verify(),
  };
}

function natives({ scheduler }: Bench): Record<string, () => unknown> {
  return {
    abort: () => scheduler.abort('a'),
    stats: () => scheduler.stats(),
    digest: () => scheduler.digest(),
  };
}

/** Reads the state that only JavaScript has: these reads work in every state. */
function readers(scheduler: Scheduler): unknown {
  const { config, core, numRunning, numWaiting, numSkipped, numUnfinished, nextDeadline } = scheduler;
  const found = [
    nextDeadline,
    scheduler.get('a')?.id,
    scheduler.getByHandle(STALE_HANDLE),
    scheduler.hasWork(),
  ];
  return [config, core, numRunning, numWaiting, numSkipped, numUnfinished, found, mirror(scheduler)];
}

describe.each(LIVE_STATES)('when %s', (state) => {
  it('and disposed, every call is refused, and what is left to read stays', () => {
    const bench = benchIn(state);
    const before = mirror(bench.scheduler);
    bench.scheduler.dispose();
    checkCodes({ ...changes(bench), ...natives(bench) }, 'ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => bench.scheduler.core.native.digest())).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(() => readers(bench.scheduler)).not.toThrow();
    expect(mirror(bench.scheduler)).toEqual(before);
    bench.scheduler.dispose();
    bench.scheduler[Symbol.dispose]();
  });

  it.each([false, true])(
    'and poisoned, every call says why, and dispose works (with a log: %s)',
    (withLog) => {
      const bench = benchIn(
        state,
        withLog ? { pipelineDepth: 2, log: { write() {} } } : { pipelineDepth: 2 },
      );
      bench.poison();
      checkCodes({ ...changes(bench), ...natives(bench) }, 'ERR_BLOCKSTEP_INVARIANT');
      const error = errorOf(() => bench.scheduler.stats()) as BlockstepError;
      expect(String(error.cause)).toContain('1000000 pending operations');
      expect(error.message).toContain('the exchange buffer says 1000000');
      expect(() => readers(bench.scheduler)).not.toThrow();
      bench.scheduler.dispose();
      checkCodes({ ...changes(bench), ...natives(bench) }, 'ERR_BLOCKSTEP_DISPOSED');
    },
  );

  it('and busy in its clock, every call but abort is refused and changes nothing', () => {
    const [bench, twin] = [benchIn(state), benchIn(state)];
    const before = snapshot(bench.scheduler);
    const calls = { ...changes(bench), dispose: () => bench.scheduler.dispose() };
    for (const [name, call] of Object.entries(calls)) {
      expect([name, codeOfError(bench.whileBusy(call))]).toEqual([name, 'ERR_BLOCKSTEP_REENTRANT']);
      expect(snapshot(bench.scheduler)).toEqual(before);
    }
    expect(codeOfError(bench.whileBusy(() => bench.scheduler.abort(1n as never)))).toBe(
      'ERR_BLOCKSTEP_BAD_ARG',
    );
    sameSteps(bench, twin, state);
  });

  it('a clock that throws or tells no time refuses the call and changes nothing', () => {
    const [bench, twin] = [benchIn(state), benchIn(state)];
    const before = snapshot(bench.scheduler);
    for (const [name, call] of Object.entries({
      ...changes(bench),
      abort: () => bench.scheduler.abort('a'),
    })) {
      bench.onClock = hostile;
      expect(errorOf(call), name).toBe(MINE);
      bench.onClock = () => {};
      const times = [Number.NaN, Infinity, -Infinity, '1', 1n, null, undefined, {}, Symbol('s'), new Date(0)];
      for (const time of times) {
        bench.time = time as number;
        expect(codeOf(call), name).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
      bench.time = 1000;
      expect(snapshot(bench.scheduler)).toEqual(before);
    }
    sameSteps(bench, twin, state);
  });

  it('a clock that goes backwards decides nothing else', () => {
    const [bench, twin] = [benchIn(state), benchIn(state)];
    const plans: unknown[][] = [[], []];
    [bench, twin].forEach((one, i) => {
      if (state === 'in flight') one.scheduler.failStep(one.plan);
      for (let step = 0; step < 6; step++) {
        if (one === bench) one.time -= 10 ** step;
        one.add(`late ${step}`, 3);
        one.step();
        plans[i].push(Array.from(one.plan.numScheduledTokens.subarray(0, one.plan.numRequests)));
      }
      one.scheduler.verify();
    });
    expect(plans[0]).toEqual(plans[1]);
    expect(bench.scheduler.digest()).toBe(twin.scheduler.digest());
  });
});

/** A workload in which every channel speaks: small pool, so requests are preempted; a stale handle; an abort. */
function lively(bench: Bench): void {
  bench.add('a', 9);
  bench.add('b', 9);
  bench.add('c', 9);
  for (let i = 0; i < 14; i++) bench.step();
  bench.scheduler.abort([STALE_HANDLE, 'c']);
  for (let i = 0; i < 30; i++) bench.step();
  bench.scheduler.verify();
}

const CHANNELS = ['request:add', 'request:admit', 'request:preempt', 'request:finish', 'step', 'anomaly'];
const SMALL = { numBlocks: 9, numSpeculativeTokens: 0 };

describe('from inside a diagnostics subscriber', () => {
  it.each(CHANNELS)('of %s, every call but abort is refused, and reading disturbs nothing', (channel) => {
    const [bench, twin] = [new Bench(SMALL), new Bench(SMALL)];
    lively(twin);
    const found = new Set<string>();
    let heard = 0;
    const listener = () => {
      if (heard++ > 5) return;
      for (const [name, call] of Object.entries({
        ...changes(bench),
        dispose: () => bench.scheduler.dispose(),
      })) {
        found.add(`${name}: ${codeOf(call)}`);
      }
      readers(bench.scheduler);
    };
    subscribe(`blockstep:${channel}`, listener);
    try {
      lively(bench);
    } finally {
      unsubscribe(`blockstep:${channel}`, listener);
    }
    expect(heard).toBeGreaterThan(0);
    expect([...found].filter((line) => !line.endsWith('ERR_BLOCKSTEP_REENTRANT'))).toEqual([]);
    expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
  });

  /** Runs `inside` once, in the subscriber of a channel, while `outside` runs. */
  function during(channel: string, inside: () => void, outside: () => void): void {
    const listener = () => {
      unsubscribe(`blockstep:${channel}`, listener);
      inside();
    };
    subscribe(`blockstep:${channel}`, listener);
    try {
      outside();
    } finally {
      unsubscribe(`blockstep:${channel}`, listener);
    }
  }

  it('abort is carried out before the next step', () => {
    const bench = benchIn('running');
    const answers: unknown[] = [];
    during(
      'request:add',
      () => answers.push(bench.scheduler.abort(['a', 'nobody'])),
      () => bench.add('d'),
    );
    expect(answers).toEqual([[]]);
    expect([bench.scheduler.get('a')?.id, bench.scheduler.hasWork()]).toEqual(['a', true]);
    expect(bench.schedule().requests.map((request) => request.id)).not.toContain('a');
    expect(bench.plan.finished).toEqual(['a']);
    bench.scheduler.verify();
  });

  it('abort names the request that has the id now, not one that takes it later', () => {
    const bench = benchIn('running');
    during(
      'request:finish',
      () => bench.scheduler.abort('a'),
      () => bench.scheduler.abort('a'),
    );
    bench.add('a');
    bench.step();
    expect(bench.scheduler.get('a')?.status).not.toBe(undefined);
  });

  it('abort takes any number of keys', () => {
    const bench = benchIn('running');
    const keys = [...Array(500_000).fill('nobody'), 'a'];
    let error: unknown;
    const aborting = () => {
      try {
        bench.scheduler.abort(keys);
      } catch (thrown) {
        error = thrown;
      }
    };
    during('request:add', aborting, () => bench.add('d'));
    expect(error).toBeUndefined();
    bench.step();
    expect(bench.scheduler.get('a')).toBeUndefined();
  });
});

describe('from inside a getter of an argument', () => {
  it.each(['dispose', 'add', 'schedule', 'abortAll'] as const)(
    '%s is refused, and the argument with it',
    (name) => {
      const bench = benchIn('in flight');
      const before = snapshot(bench.scheduler);
      const calls: Record<string, () => unknown> = {
        ...changes(bench),
        dispose: () => bench.scheduler.dispose(),
      };
      const inner = calls[name] as () => never;
      const input = Object.defineProperty({ prompt: prompt(4), maxTokens: 1 }, 'id', {
        get: inner,
        enumerable: true,
      });
      const result = Object.defineProperty({ ...resultOf(bench.plan) }, 'errors', { get: inner });
      const options = Object.defineProperty({}, 'resetRunning', { get: inner });
      checkCodes(
        {
          add: () => bench.scheduler.add(input as never),
          update: () => bench.scheduler.update(bench.plan, result),
          resetPrefixCache: () => bench.scheduler.resetPrefixCache(options),
        },
        'ERR_BLOCKSTEP_REENTRANT',
      );
      expect(snapshot(bench.scheduler)).toEqual(before);
      bench.scheduler.update(bench.plan, resultOf(bench.plan));
      bench.scheduler.verify();
    },
  );
});

describe('a wrong receiver', () => {
  const names = [...Object.keys(changes(benchIn('fresh'))), ...Object.keys(natives(benchIn('fresh')))];
  const others = [
    'get',
    'getByHandle',
    'inspect',
    'hasWork',
    'dispose',
    'numRunning',
    'nextDeadline',
    'config',
    'core',
  ];

  it.each([...names, ...others])('is refused by %s', (name) => {
    const bench = benchIn('in flight');
    const before = snapshot(bench.scheduler);
    let owner: object = Scheduler.prototype;
    while (!Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
    const descriptor = Object.getOwnPropertyDescriptor(owner, name)!;
    const method = (descriptor.value ?? descriptor.get) as (...args: unknown[]) => unknown;
    const args: unknown[] = name === 'pause' ? ['new'] : ['a', 'load', 'x'];
    const receivers = [
      {},
      null,
      undefined,
      1,
      Object.create(bench.scheduler),
      new Proxy(bench.scheduler, {}),
    ];
    for (const receiver of [...receivers, Scheduler.prototype]) {
      // As the language does it for its own classes (Map.prototype.get.call({})), or by our own code.
      const error = errorOf(() => Reflect.apply(method, receiver, args)) as BlockstepError;
      expect(error instanceof TypeError || error.code === 'ERR_BLOCKSTEP_BAD_RECEIVER').toBe(true);
    }
    expect(snapshot(bench.scheduler)).toEqual(before);
  });
});
