import '../support/gpu.js';
import { expect, it, onTestFinished } from 'vitest';
import { cachedHashes, driveRandomly, smallEngine } from '../kv-events/random-engine.js';

it('KV cache events of a core whose mirror is on a GPU give its index, and the mirror agrees', async () => {
  const hashes = new Set<string>();
  const engine = smallEngine(
    {
      onEvents: (events) => {
        for (const event of events) {
          if (event.type === 'cleared') hashes.clear();
          else
            for (let at = 0; at < event.hashes.length; at += 16) {
              const hash = Buffer.from(event.hashes.subarray(at, at + 16))
                .reverse()
                .toString('hex');
              if (event.type === 'stored') hashes.add(hash);
              else hashes.delete(hash);
            }
        }
      },
    },
    { backend: 'cuda' },
  );
  onTestFinished(() => engine.dispose());
  await driveRandomly(engine, 600, 5);
  expect([...hashes].sort()).toEqual(cachedHashes(engine));
  const { native } = engine.scheduler.core;
  native.startMirrorDigest();
  while (native.mirrorDigest() === null) await new Promise((resolve) => setImmediate(resolve));
  expect(native.mirrorDigest()).toBe(native.digest());
});
