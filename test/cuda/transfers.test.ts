// Random lives of an engine whose KV goes over CUDA lanes to pinned memory and back, by the copy
// engine and by a kernel.
import '../support/gpu.js';
import { CudaLane } from '../../src/transfer.js';
import { describeTierLife } from '../engine/transfers/tier-life.js';

// Between the KV memory of a GPU and a tier in pinned memory; one way by the copy engine, the other by a kernel.
describeTierLife({
  executor: { device: 'cuda' },
  place: 'pinned',
  makeLane: (queue, source, target) => {
    return new CudaLane(queue, source, target, { mode: source.place === 'pinned' ? 'kernel' : 'batch' });
  },
});
