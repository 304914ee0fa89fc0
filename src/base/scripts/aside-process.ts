// The script of a process that runs long tasks of strangers aside.
import { setPriority } from 'node:os';
import { type Answer, LOADED, type Order } from './aside-order.js';

const LONGEST_MESSAGE = 2000;

/**
 * The process runs at a lower priority than its parent, so that long tasks of strangers slow no
 * other answer.
 */
const NICENESS = 5;
setPriority(NICENESS);

const loaded = new Set<string>();
const say = (what: Answer | typeof LOADED): void => {
  process.send?.(what);
};

// An interrupt at a terminal also reaches this process, while its parent may continue for a while.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
process.on('disconnect', () => process.exit());

process.on('message', async ({ module, name, input, maxOutput }: Order) => {
  try {
    const { [name]: task } = (await import(module)) as Record<string, (input: unknown) => unknown>;
    if (!loaded.has(module)) say(LOADED);
    loaded.add(module);
    const output = await task(input);
    const length = typeof output === 'string' ? output.length : 0;
    if (length <= maxOutput) return say({ output });
    const message = `the result has ${length} characters, and at most ${maxOutput} are allowed`;
    return say({ name: 'Error', message, isTooLong: true });
  } catch (error) {
    const { name: kind = 'Error', message = String(error), code } = (error ?? {}) as NodeJS.ErrnoException;
    return say({
      name: kind,
      message: message.slice(0, LONGEST_MESSAGE),
      ...(code !== undefined && { code: String(code) }),
    });
  }
});
