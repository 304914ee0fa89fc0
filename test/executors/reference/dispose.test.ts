// A disposed executor gives its memory back and refuses every use.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KV_ENTRY_BYTES } from '../../../src/core/native/native-reference.js';
import { Engine, ReferenceExecutor } from '../../../src/index.js';
import { CompletionQueue, HostLane } from '../../../src/transfer.js';
import { codeOf } from '../../support/driver.js';
import { rejection } from '../../support/engine-bench.js';
import { wordy } from './support.js';

const MAPS = '/proc/self/maps';
// 64 MiB, so that its memory is a mapping of its own.
const OPTIONS = { numBlocks: 2 ** 17, blockSize: 16, maxNumSeqs: 4, maxModelLen: 256 };

/** Whether all of the KV memory at this address is mapped. Once given back, a part of it may be mapped for somebody else. */
function isMapped(address: bigint): boolean {
  const end = address + BigInt(OPTIONS.numBlocks * OPTIONS.blockSize * KV_ENTRY_BYTES);
  let covered = 0n;
  for (const line of readFileSync(MAPS, 'latin1').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line);
    if (range === null) continue;
    const [low, high] = [BigInt(`0x${range[1]}`), BigInt(`0x${range[2]}`)];
    const overlap = (high < end ? high : end) - (low > address ? low : address);
    if (overlap > 0n) covered += overlap;
  }
  return covered === end - address;
}

// Pinned by: `dispose` (reference-executor.ts, host-runner.ts, device-runner.ts).
describe('a reference executor that was disposed', () => {
  it.skipIf(!existsSync(MAPS))(
    'has given its KV memory back, with steps in flight and with none',
    async () => {
      for (const steps of [0, 1, 2]) {
        const executor = new ReferenceExecutor({ ...OPTIONS, pipelineDepth: 2, defer: () => {} });
        const engine = new Engine({ ...OPTIONS, pipelineDepth: 2, executor });
        const stream = engine.submit({ prompt: wordy(9, 1), maxTokens: 9 });
        for (let i = 0; i < steps; i++) engine.step();
        const { pointer } = executor.kv;
        expect(isMapped(pointer)).toBe(true);
        executor.dispose();
        expect(isMapped(pointer)).toBe(false);
        engine.dispose();
        expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
      }
    },
  );

  it.skipIf(!existsSync(MAPS))(
    'leaves the memory to a lane that still copies it, which frees it then',
    () => {
      using executor = new ReferenceExecutor(OPTIONS);
      using other = new ReferenceExecutor({ ...OPTIONS, numBlocks: 64 });
      const { pointer } = executor.kv;
      const lane = new HostLane(new CompletionQueue(), executor.kv, other.kv);
      executor.dispose();
      expect(isMapped(pointer)).toBe(true);
      lane.dispose();
      expect(isMapped(pointer)).toBe(false);
    },
  );

  it('refuses every use, of an arena that was taken before too, and can be disposed again', () => {
    const executor = new ReferenceExecutor({ ...OPTIONS, numBlocks: 64 });
    const { kv } = executor;
    expect(kv.buffer.byteLength).toBe(64 * 16 * 32);
    executor.dispose();
    executor.dispose();
    const uses: Record<string, () => unknown> = {
      kv: () => executor.kv,
      memory: () => executor.memory(),
      adopt: () => executor.adopt(2 ** 21, Int32Array.of(1)),
      execute: () => executor.execute({} as never, null),
      buffer: () => kv.buffer,
      pointer: () => kv.pointer,
      readBlock: () => kv.readBlock(1),
      writeBlock: () => kv.writeBlock(1, new Uint8Array(16 * 32)),
      arrivals: () => kv.arrivals(1),
      lane: () => new HostLane(new CompletionQueue(), kv, kv),
    };
    for (const [name, use] of Object.entries(uses)) expect(codeOf(use), name).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(executor.faults).toEqual([]);
  });
});
