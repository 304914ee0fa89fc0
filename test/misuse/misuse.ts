// Makes one bad call and checks that it is refused and changes nothing.
import { expect } from 'vitest';
import { BlockstepError, type ErrorCode, type SchedulerOptions } from '../../src/index.js';
import { MINE } from './bad-values.js';
import { type Bench, benchIn, codeOf, errorOf, expectReadable, type LiveState, snapshot } from './bench.js';

/** One call that must be refused. */
export interface Misuse {
  name: string;
  call: (bench: Bench) => unknown;
  /** The code of the refusal, or the error of a hostile callback, which must arrive as it is. */
  refusal: ErrorCode | typeof MINE;
}

/** Names a value for people, whatever it is. */
export function describeValue(value: unknown): string {
  try {
    if (typeof value === 'string') return JSON.stringify(value.slice(0, 10));
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'object' && value !== null) return Object.prototype.toString.call(value);
    return Object.is(value, -0) ? '-0' : String(value).slice(0, 30);
  } catch {
    return `hostile ${typeof value}`;
  }
}

/** One misuse for each value. */
export function each(
  name: string,
  values: readonly unknown[],
  call: (bench: Bench, value: unknown) => unknown,
  refusal: Misuse['refusal'] = 'ERR_BLOCKSTEP_BAD_ARG',
): Misuse[] {
  return values.map((value, i) => ({
    name: `${name} ${i}: ${describeValue(value)}`,
    call: (bench) => call(bench, value),
    refusal,
  }));
}

/** As `each`, for values that are made for every call. */
export function eachMade(
  name: string,
  makers: readonly (() => unknown)[],
  call: (bench: Bench, value: unknown) => unknown,
): Misuse[] {
  return makers.flatMap((make, i) =>
    each(`${name} #${i}`, [undefined], (bench) => call(bench, make())).map((misuse) => ({
      ...misuse,
      name: `${name} #${i}: ${describeValue(make())}`,
    })),
  );
}

/**
 * Does every misuse to one scheduler, and nothing to its twin. No misuse may change anything at all; and after all of
 * them the two still take the same steps. Names each misuse for which that does not hold.
 */
export function checkRefused(
  state: LiveState,
  misuses: readonly Misuse[],
  options: Partial<SchedulerOptions> = {},
): void {
  const twin = benchIn(state, options);
  let bench = benchIn(state, options);
  const failures: string[] = [];
  for (const misuse of misuses) {
    const before = snapshot(bench.scheduler);
    try {
      checkRefusal(
        misuse,
        errorOf(() => misuse.call(bench)),
      );
      expect(snapshot(bench.scheduler)).toEqual(before);
    } catch (error) {
      failures.push(
        `${misuse.name}: ${String((error as Error).message)
          .split('\n')[0]
          .slice(0, 200)}`,
      );
      bench = benchIn(state, options);
    }
  }
  expect(failures).toEqual([]);
  sameSteps(bench, twin, state);
}

function checkRefusal({ refusal }: Misuse, error: unknown): void {
  if (refusal === MINE) {
    expect(error).toBe(MINE);
    return;
  }
  if (!(error instanceof BlockstepError)) throw new Error(`a raw ${String(error)}`);
  expect(error.code).toBe(refusal);
  expectReadable(error);
}

/** Checks that both take the same ordinary steps from here on. */
export function sameSteps(bench: Bench, twin: Bench, state: LiveState): void {
  for (const one of [bench, twin]) {
    if (state === 'in flight') one.scheduler.failStep(one.plan);
    one.add('after', 9);
    for (let i = 0; i < 3; i++) one.step();
    one.scheduler.verify();
  }
  expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
}

/** Checks that every call is refused with this code. Names each one that is not. */
export function checkCodes(calls: Record<string, () => unknown>, code: ErrorCode): void {
  const found: Record<string, string> = {};
  const expected: Record<string, string> = {};
  for (const [name, call] of Object.entries(calls)) {
    expected[name] = code;
    try {
      found[name] = codeOf(call);
    } catch (error) {
      found[name] = String(error);
    }
  }
  expect(found).toEqual(expected);
}
