import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { StoreThread } from '../../../../src/connectors/store/client/store-thread.js';

/** Most milliseconds that a test waits for something that must come. No test needs as long, on a machine that does little else. */
export const PATIENCE_MS = 120_000;

/** A folder that is removed with the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-store-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }));
  return folder;
}

/** Lets the event loop go on for a moment. */
export function pause(ms = 1): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits until something holds. @param what it is, told when it does not come @throws if it does not come */
export async function until(
  holds: () => boolean,
  what: string | (() => string) = 'what the test waits for',
): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`${typeof what === 'string' ? what : what()} did not come`);
    await pause();
  }
}

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
