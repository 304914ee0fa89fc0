// KV cache events of a core with a mirror.
import '../support/gpu.js';
import { expect, it, onTestFinished } from 'vitest';
import { driveRandomly, engineHashes, smallEngine } from '../kv-events/random-engine.js';
import { hashesOf } from '../support/prefix-hashes.js';

it('KV cache events of a core whose mirror is on a GPU give its index, and the mirror agrees', async () => {
  const hashes = new Set<string>();
  const engine = smallEngine(
    {
      onEvents: (events) => {
        for (const event of events) {
          if (event.type === 'cleared') hashes.clear();
          else
            for (const hash of hashesOf(event.hashes)) {
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
  expect([...hashes].sort()).toEqual(engineHashes(engine));
  const { native } = engine.scheduler.core;
  native.startMirrorDigest();
  while (native.mirrorDigest() === null) await new Promise((resolve) => setImmediate(resolve));
  expect(native.mirrorDigest()).toBe(native.digest());
});
