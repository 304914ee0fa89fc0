// Jobs of a thread as promises.
import type { StoreThread } from '../../../../src/connectors/store/client/store-thread.js';
import { until } from '../../../support/waiting.js';

/** A job of a thread as a promise: its outcomes, when its places are free. */
export async function done(
  thread: StoreThread,
  kind: 'get' | 'put',
  keys: readonly string[],
  places: readonly number[],
): Promise<number[]> {
  let outcomes: Uint8Array | null = null;
  let isFree = false;
  const free = (): void => {
    isFree = true;
  };
  const end = (told: Uint8Array): void => {
    outcomes = told;
  };
  thread[kind](keys, Int32Array.from(places), end, free);
  await until(() => {
    thread.drain();
    return isFree;
  }, `the end of ${kind}`);
  return [...(outcomes as unknown as Uint8Array)];
}

/** `has` of a thread as a promise. */
export async function there(thread: StoreThread, keys: readonly string[]): Promise<number[]> {
  let outcomes: Uint8Array | null = null;
  thread.has(keys, (told) => {
    outcomes = told;
  });
  await until(() => {
    thread.drain();
    return outcomes !== null;
  }, 'the end of has');
  return [...(outcomes as unknown as Uint8Array)];
}

/** Lets everything go on that waits for no time: some turns of the event loop. */
export async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise(setImmediate);
}
