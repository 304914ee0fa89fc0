// The reference executor's TypeScript type is `Executor` or `DeviceExecutor`, by where it computes.
import { describe, expect, it } from 'vitest';
import {
  type DeviceExecutor,
  Engine,
  type Executor,
  ReferenceExecutor,
  type ReferenceExecutorOptions,
} from '../../../src/index.js';

const sizes = { numBlocks: 9, blockSize: 4, maxNumSeqs: 2, maxNumBatchedTokens: 16, maxModelLen: 32 };

describe('the type of a reference executor', () => {
  it('is that of an Executor on the host', () => {
    const executor: Executor = new ReferenceExecutor({ ...sizes });
    const named: Executor = new ReferenceExecutor({ ...sizes, device: 'cpu' });
    expect([executor.device, named.device]).toEqual(['cpu', 'cpu']);
    using engine = new Engine({ executor, ...sizes });
    expect(engine.hasWork()).toBe(false);
    named.dispose?.();
  });

  it('is that of a DeviceExecutor wherever it computes', () => {
    const anywhere = (options: ReferenceExecutorOptions): DeviceExecutor => new ReferenceExecutor(options);
    const plain: ReferenceExecutor = new ReferenceExecutor({ ...sizes });
    expect([anywhere(sizes).device, plain.device]).toEqual(['cpu', 'cpu']);
  });

  it('fits an engine wherever it computes', () => {
    const make = (options: ReferenceExecutorOptions): Engine =>
      new Engine({ executor: new ReferenceExecutor(options), ...sizes });
    make(sizes).dispose();
  });

  it('is not that of an Executor where it may compute on a GPU', () => {
    const refused = {
      // @ts-expect-error An executor on a GPU is given other tables.
      onGpu: (): Executor => new ReferenceExecutor({ ...sizes, device: 'cuda' }),
      // @ts-expect-error These options may name a GPU.
      somewhere: (options: ReferenceExecutorOptions): Executor => new ReferenceExecutor(options),
      // @ts-expect-error It does not read tables on a GPU.
      own: (): Executor => ({ device: 'cuda', execute: (_, tables) => Promise.reject(tables?.blockTable) }),
      // @ts-expect-error A device is named by a string.
      byNumber: () => new ReferenceExecutor({ ...sizes, device: 5 }),
    };
    expect(Object.keys(refused)).toHaveLength(4);
  });
});
