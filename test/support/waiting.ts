// Waits for a condition of a test, and collects uncaught errors meanwhile.

/** Most milliseconds that a test waits for something that must come. No test needs as long, on a machine that does little else. */
export const PATIENCE_MS = 120_000;

/** Yields to the event loop for a moment. */
export function pause(ms = 1): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Waits until something holds. A slow check runs for half of the time only. So the awaited work,
 * which is in this process, goes on beside it.
 * @param what its name, for the error when it does not come
 * @throws if it does not come
 */
export async function until(
  holds: () => boolean,
  what: string | (() => string) = 'what the test waits for',
): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const begin = Date.now();
    if (holds()) return;
    const now = Date.now();
    if (now > end) throw new Error(`${typeof what === 'string' ? what : what()} did not come`);
    await pause(Math.max(1, now - begin));
  }
}

/**
 * Collects what is thrown where nobody catches it, while `act` runs.
 * @param act is given the list, which grows
 */
export async function withMistakes(act: (mistakes: readonly unknown[]) => Promise<void>): Promise<void> {
  const mistakes: unknown[] = [];
  const hear = (error: unknown) => mistakes.push(error);
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException').on('uncaughtException', hear);
  try {
    await act(mistakes);
  } finally {
    process.off('uncaughtException', hear);
    for (const listener of before) process.on('uncaughtException', listener);
  }
}
