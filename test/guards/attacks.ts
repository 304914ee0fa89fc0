// The errors, answers and calls of hostile methods.
import { prompt } from '../support/driver.js';
import type { RemoteDriver } from './remote.js';

const unreadable = (): object =>
  new Proxy(
    {},
    {
      get: () => {
        throw new Error('planted in a getter');
      },
    },
  );

/** The values that can be thrown. */
export const THROWN: Record<string, () => never> = {
  'an error': () => {
    throw new Error('planted');
  },
  'a string': () => {
    throw 'planted';
  },
  undefined: () => {
    throw undefined;
  },
  null: () => {
    throw null;
  },
  'an object that cannot be read': () => {
    throw unreadable();
  },
  'an error whose message throws': () => {
    throw Object.defineProperty(new Error('x'), 'message', {
      get: () => {
        throw new Error('planted in a message');
      },
    });
  },
  'a stack overflow': () => {
    const down = (): never => down();
    return down();
  },
};

/** Values that are no valid answer of any method, named by their fault. */
export const NONSENSE: Record<string, () => unknown> = {
  undefined: () => undefined,
  null: () => null,
  'not a number': () => Number.NaN,
  'a string': () => 'none',
  true: () => true,
  'a symbol': () => Symbol('x'),
  'a bigint': () => 1n,
  'an empty object': () => ({}),
  'an array': () => [1],
  'a function': () => () => 0,
  'a promise': () => Promise.resolve({ numTokens: 8, async: true, delayFree: false }),
  'an object that cannot be read': unreadable,
  'numTokens as text': () => ({ numTokens: '8', async: true }),
  'a negative numTokens': () => ({ numTokens: -1, async: false }),
  'half a token': () => ({ numTokens: 0.5, async: false }),
  'more tokens than there are': () => ({ numTokens: 10, async: true }),
  'endless tokens': () => ({ numTokens: Number.POSITIVE_INFINITY, async: true }),
  'async that is none': () => ({ numTokens: 8, async: 1 }),
  'nothing, asynchronously': () => ({ numTokens: 0, async: true }),
  'a child that it has not': () => ({ numTokens: 8, async: true, child: 1, delayFree: true, children: [1] }),
  'a child that is none': () => ({ numTokens: 8, async: true, child: '0', delayFree: true, children: ['0'] }),
  'delayFree that is none': () => ({ delayFree: 1 }),
  'no child at all': () => ({ delayFree: true, children: [] }),
  'children that are no list': () => ({ delayFree: true, children: 0 }),
  'params that are none': () => ({ delayFree: false, transferParams: 'x' }),
};

/** Calls that change something, and that no callback may make. */
export const REENTRANT: Record<string, (driver: RemoteDriver, handle: number) => unknown> = {
  add: ({ scheduler }) => scheduler.add({ id: 'x', prompt: prompt(4), maxTokens: 1 }),
  addChunk: ({ scheduler }) => scheduler.addChunk('v', { prompt: prompt(4) }),
  endSession: ({ scheduler }) => scheduler.endSession('v'),
  abortAll: ({ scheduler }) => scheduler.abortAll(),
  schedule: ({ scheduler }) => scheduler.schedule(),
  updateTransfers: ({ scheduler }) => scheduler.updateTransfers({}),
  fenceTransfers: ({ scheduler }) => scheduler.fenceTransfers(),
  resetPrefixCache: ({ scheduler }) => scheduler.resetPrefixCache({ resetRunning: true }),
  pause: ({ scheduler }) => scheduler.pause('all'),
  resume: ({ scheduler }) => scheduler.resume(),
  hold: ({ scheduler }, handle) => scheduler.hold(handle, 'store', 'x'),
  complete: ({ scheduler }, handle) => scheduler.complete(handle, 'store', 'x'),
  verify: ({ scheduler }) => scheduler.verify(),
  dispose: ({ scheduler }) => scheduler.dispose(),
};

/** The calls that every callback may make: they only read. */
export function readAll({ scheduler }: RemoteDriver): void {
  scheduler.stats();
  scheduler.inspect();
  scheduler.digest();
  scheduler.get('v');
  for (const { handle } of scheduler.inspect().requests) scheduler.getByHandle(handle);
}
