import { expect } from 'vitest';
import { Control, SLOT_LIMIT } from '../../src/core/core.js';
import {
  BlockstepError,
  type Drafts,
  type ErrorCode,
  type Plan,
  type Request,
  type RequestInput,
  Scheduler,
  type SchedulerOptions,
  type StepResult,
} from '../../src/index.js';

/** A handle that no scheduler of these tests ever gives out. */
export const STALE_HANDLE = 900 * SLOT_LIMIT + 5;

export function prompt(length: number, first = 0): Int32Array {
  return Int32Array.from({ length }, (_, i) => first + i);
}

/**
 * The result of an executor for a plan: one token for each entry whose known tokens are all
 * computed.
 */
export function resultOf(plan: Plan): StepResult {
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests), (most) =>
    Math.min(most, 1),
  );
  return { counts, tokens: new Int32Array(plan.numRequests).fill(7 + plan.step) };
}

export function draftsOf(plan: Plan): Drafts {
  return {
    counts: new Int32Array(plan.numRequests).fill(1),
    tokens: new Int32Array(plan.numRequests).fill(3),
  };
}

/**
 * A small scheduler whose clock is set by hand. `onClock` runs inside the clock of every call: there the scheduler is
 * busy.
 */
export class Bench {
  readonly scheduler: Scheduler;
  time = 1000;
  onClock: () => void = () => {};
  /** The plan scheduled last. */
  plan!: Plan;

  constructor(options: Partial<SchedulerOptions> = {}) {
    this.scheduler = new Scheduler({
      numBlocks: 33,
      blockSize: 4,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 16,
      maxModelLen: 64,
      numSpeculativeTokens: 2,
      hashSeed: 5,
      now: () => {
        this.onClock();
        return this.time;
      },
      ...options,
    });
  }

  add(id: string, length = 6, more: Partial<RequestInput> = {}): number {
    return this.scheduler.add({ id, prompt: prompt(length), maxTokens: 20, ...more });
  }

  schedule(): Plan {
    this.plan = this.scheduler.schedule();
    return this.plan;
  }

  /** One whole, ordinary step, drafts included. */
  step(): void {
    const plan = this.schedule();
    this.scheduler.update(plan, resultOf(plan));
    const { pipelineDepth, numSpeculativeTokens } = this.scheduler.config;
    if (pipelineDepth === 1 && numSpeculativeTokens > 0)
      this.scheduler.updateDraftTokens(plan, draftsOf(plan));
  }

  /** Makes the next native entry fault, as a broken invariant would. */
  poison(): void {
    this.scheduler.core.control[Control.numPending] = 1e6;
    expect(codeOf(() => this.scheduler.verify())).toBe('ERR_BLOCKSTEP_INVARIANT');
  }

  /** Runs `act` while the scheduler is busy, and gives back what it threw. */
  whileBusy(act: () => unknown): unknown {
    let thrown: unknown;
    this.onClock = () => {
      this.onClock = () => {};
      thrown = errorOf(act);
    };
    this.scheduler.verify();
    return thrown;
  }
}

/** States in which the scheduler works. Every one is reached by ordinary calls alone. */
export const LIVE_STATES = ['fresh', 'running', 'in flight', 'draining'] as const;
export type LiveState = (typeof LIVE_STATES)[number];

/** a and b run, b is a session, c waits; `draining`: d has finished and a transfer still reads its blocks. */
export function benchIn(state: LiveState, options: Partial<SchedulerOptions> = {}): Bench {
  const bench = new Bench(options);
  if (state === 'fresh') return bench;
  bench.add('a', 6);
  bench.add('b', 9, { resumable: true });
  if (state === 'draining') {
    const handle = bench.add('d', 5);
    bench.step();
    bench.step();
    bench.scheduler.hold(handle, 'store', 'job');
    bench.scheduler.abort('d');
  }
  bench.step();
  bench.step();
  bench.add('c', 30);
  if (state === 'in flight') bench.schedule();
  return bench;
}

/** Everything that a refused call may not change, in one comparable value. */
export function snapshot(scheduler: Scheduler): unknown {
  const { anomalies: _, ...stats } = scheduler.stats();
  const seen = mirror(scheduler);
  return { digest: scheduler.digest(), stats, seen, slots: slots(scheduler) };
}

/**
 * The part of a snapshot that needs no native state: the part that can be read of a scheduler that
 * refuses to work.
 */
export function mirror(scheduler: Scheduler): unknown {
  const { requests, draining, quarantined, ...queues } = scheduler.inspect();
  const { numRunning, numWaiting, numSkipped, numUnfinished } = scheduler;
  const counts = { numRunning, numWaiting, numSkipped, numUnfinished, hasWork: scheduler.hasWork() };
  const ended = [...draining, ...quarantined].map(fields);
  return { ...queues, ...counts, requests: requests.map(fields), ended };
}

function fields(request: Request): unknown {
  // Anomalies are counted; nothing else comes of them.
  const {
    prev: _prev,
    next: _next,
    numAnomalies: _count,
    lastAnomaly: _last,
    outstanding,
    ...plain
  } = request;
  return { ...plain, outstanding: outstanding?.describe() ?? [] };
}

/** Handle and tokens of the first slots: a slot that nobody owns would show here. */
function slots({ core }: Scheduler): string[] {
  return Array.from({ length: 12 }, (_, slot) => {
    const handle = core.native.handle(slot);
    return handle === 0 ? '-' : `${handle}:${core.tokens(slot).join()}`;
  });
}

/** Returns the error that a call throws. Fails if it does not throw. */
export function errorOf(call: () => unknown): unknown {
  let result: unknown;
  try {
    result = call();
  } catch (error) {
    return error;
  }
  throw new Error(`the call was not refused: it returned ${String(result)}`);
}

/** The code that a call is refused with. Fails if it is not refused, or with anything but a BlockstepError. */
export function codeOf(call: () => unknown): ErrorCode {
  return codeOfError(errorOf(call));
}

export function codeOfError(error: unknown): ErrorCode {
  if (error instanceof BlockstepError) return error.code;
  throw error;
}

/**
 * A refusal names what it found and what it expected, and stays short whatever it found.
 * @param most characters, less one: more where a refusal lists all names that are known
 */
export function expectReadable(error: unknown, most = 400): void {
  const { message } = error as BlockstepError;
  expect(message).toMatch(
    /(must|expected|needs?|belongs|fits?|room|flight|inside|disposed|broke|handle|request)/,
  );
  if ((error as BlockstepError).code === 'ERR_BLOCKSTEP_BAD_ARG') expect(message).toMatch(/, got ./s);
  expect(message.length).toBeLessThan(most);
}

/**
 * A call that may be refused or carried out, but never half. After a refusal all is as before. In
 * either case every invariant holds, no slot is without its request, and ordinary steps follow.
 */
export function sameAfter(bench: Bench, call: () => unknown): void {
  const before = snapshot(bench.scheduler);
  let refused = false;
  try {
    call();
  } catch {
    refused = true;
  }
  if (refused) expect(snapshot(bench.scheduler)).toEqual(before);
  expectOwnedSlots(bench.scheduler);
  bench.scheduler.verify();
  bench.step();
  bench.scheduler.verify();
}

/** Checks that only slots of requests are open. */
export function expectOwnedSlots(scheduler: Scheduler): void {
  for (let slot = 0; slot < 12; slot++) {
    const handle = scheduler.core.native.handle(slot);
    if (handle !== 0) expect(scheduler.getByHandle(handle)?.handle).toBe(handle);
  }
}
