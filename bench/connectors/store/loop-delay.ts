import { monitorEventLoopDelay } from 'node:perf_hooks';
import { RedisStore } from '../../../src/connectors/store/stores/redis-store.js';
import { seal, unseal } from '../../../src/connectors/store/stores/sealed-value.js';
import { checkStore, type RedisSettings } from '../../../src/connectors/store/stores/store-options.js';
import { throughThread } from './throughput.js';

/** Delay of the event loop beyond a timer's own resolution, in milliseconds. */
export interface LoopDelay {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

async function delayOf(act: () => Promise<unknown>): Promise<LoopDelay> {
  const monitor = monitorEventLoopDelay({ resolution: 1 });
  monitor.enable();
  await act();
  monitor.disable();
  const ms = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - 1);
  return { p50: ms(monitor.percentile(50)), p99: ms(monitor.percentile(99)), max: ms(monitor.max) };
}

/** Delays while nothing runs, while blocks move by the thread, and while the same store works in the event loop itself. */
export async function loopDelays(url: string, bytesPerBlock: number, count: number) {
  const none = await delayOf(() => new Promise((resolve) => setTimeout(resolve, 500)));
  const withThread = await delayOf(() =>
    throughThread({ url, commandTimeoutMs: 60_000 }, bytesPerBlock, count),
  );
  const settings = checkStore({ url, commandTimeoutMs: 60_000 }) as RedisSettings;
  const store = await RedisStore.open(settings);
  const content = Buffer.alloc(bytesPerBlock, 7);
  const target = Buffer.alloc(bytesPerBlock);
  const withoutThread = await delayOf(async () => {
    for (let at = 0; at < count; at += 8) {
      const keys = Array.from({ length: 8 }, (_, i) => `loop ${(at + i) % 64}`);
      await store.put(
        keys,
        keys.map((key) => seal(key, content)),
      );
      await store.get(keys, (i, value) => {
        if (value !== null) target.set(unseal(keys[i], value, bytesPerBlock) as Uint8Array);
      });
    }
  });
  await store.close();
  return { none, withThread, withoutThread };
}
