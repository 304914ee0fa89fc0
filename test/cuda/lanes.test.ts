// A CUDA lane keeps the contract of lanes (`test/transfer/lane-contract.ts`) and copies in order
// with the executor's steps; a lane whose GPU fails.
import { afterEach, describe, expect, it } from 'vitest';
import { ReferenceExecutor } from '../../src/index.js';
import {
  BlockArena,
  CompletionQueue,
  CudaLane,
  type CudaLaneOptions,
  HostLane,
  type Place,
} from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { isEmulated, plant } from '../support/gpu.js';
import { thinned } from '../support/share.js';
import { PATIENCE_MS } from '../support/waiting.js';
import { describeLane } from '../transfer/lane-contract.js';
import { drainAll, ids, LaneBench, type LaneKind, NUM_BLOCKS } from '../transfer/support.js';

type Way = readonly [source: Place, target: Place];
const TO_GPU: Way = ['pinned', 'device'];
const WAYS: readonly Way[] = [TO_GPU, ['device', 'pinned'], ['device', 'device']];
/** Which ones a lane is tried with. */
const COMPLETIONS = [['write-value', 'event'], ['write-value'], ['event']] as const;

function cudaLanes([source, target]: Way, options: CudaLaneOptions = {}): LaneKind<CudaLane> {
  return {
    makeSource: (shape) => BlockArena.allocate({ ...shape, place: source }),
    makeTarget: (shape) => BlockArena.allocate({ ...shape, place: target }),
    makeLane: (queue, from, to) => new CudaLane(queue, from, to, options),
  };
}

/** The error of the call, as code and message. */
function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return `${(error as { code?: string }).code}: ${(error as Error).message}`;
  }
  return 'nothing was thrown';
}

// Every two of way, mode and completion are met together.
const LANES = WAYS.flatMap((way, i) =>
  (['batch', 'kernel', 'copies'] as const).flatMap((mode, j) =>
    COMPLETIONS[(i + j) % 3].map((completion) => ({ way, mode, completion })),
  ),
);
for (const { way, ...options } of thinned(LANES, 2)) {
  const name = `a CUDA lane, ${way.join(' to ')}, ${options.mode}, ${options.completion}`;
  describeLane(name, () => cudaLanes(way, options));
}
describeLane('a CUDA lane of one piece at a time', () => cudaLanes(TO_GPU, { windowBytes: 1 }));

describe('a CUDA lane', () => {
  it.each([
    ['batch', 'write-value'],
    ['kernel', 'event'],
    ['copies', 'write-value'],
  ] as const)('says how it works: %s, %s', (mode, completion) => {
    using bench = new LaneBench(cudaLanes(TO_GPU, { mode, completion }));
    expect(bench.lane.info).toMatchObject({ device: 0, mode, completion });
    expect([bench.lane.source, bench.lane.target]).toEqual([bench.source, bench.target]);
  });

  it('takes the kernel unless it is told otherwise, and the copy engine for blocks that the kernel cannot copy', () => {
    using usual = new LaneBench(cudaLanes(TO_GPU));
    expect(usual.lane.info.mode).toBe('kernel');
    using odd = new LaneBench(cudaLanes(TO_GPU), 4, { bytesPerBlock: 77 });
    expect(odd.lane.info.mode).toBe('batch');
    odd.lane.flush(ids(odd.lane.submit(ids(0, 5, 6), ids(23, 2, 3))));
    expect(odd.origins(1, 2, 3, 4, 23)).toEqual([-1, 5, 6, -1, 0]);
  });

  it.each(['batch', 'copies'] as const)('copies blocks of any size: %s', (mode) => {
    using bench = new LaneBench(cudaLanes(TO_GPU, { mode }), 4, { bytesPerBlock: 77 });
    bench.lane.flush(ids(bench.lane.submit(ids(0, 5, 6), ids(23, 2, 3))));
    expect(bench.origins(1, 2, 3, 4, 23)).toEqual([-1, 5, 6, -1, 0]);
  });

  it('refuses arenas between which no GPU copies', () => {
    using bench = new LaneBench(cudaLanes(TO_GPU));
    const { queue, source, target } = bench;
    const shape = { numBlocks: 4, bytesPerBlock: 72 };
    const arena = (place: Place, device = 0) => BlockArena.allocate({ ...shape, place, device });
    const [host, pinned, device] = [arena('host'), arena('pinned'), arena('device')];
    const lane = (from: BlockArena, to: BlockArena, options?: CudaLaneOptions) =>
      refusal(() => new CudaLane(queue, from, to, options));
    const bad = 'ERR_BLOCKSTEP_BAD_ARG: ';
    for (const [side, text] of [
      ['source', lane(host, device)],
      ['target', lane(device, host)],
    ]) {
      expect(text).toContain(`${bad}${side} must be an arena on a GPU or in pinned memory`);
      expect(text).toContain("allocate it with place 'pinned'");
    }
    expect(lane(pinned, arena('pinned'))).toContain('got two arenas in pinned memory');
    expect(lane(pinned, device, { mode: 'kernel' })).toContain(
      'must be a multiple of 16 for a lane that copies by a kernel, got 72',
    );
    expect(lane(device, device)).toMatch(/^ERR_BLOCKSTEP_BAD_ARG: /);
    expect(lane(source, device)).toMatch(/^ERR_BLOCKSTEP_BAD_ARG: .*72/);
    expect(refusal(() => new HostLane(queue, device, host))).toMatch(/^ERR_BLOCKSTEP_BAD_ARG: /);
    if (isEmulated) {
      plant('devices=2');
      expect(lane(device, arena('device', 1))).toContain('target must be on GPU 0 as source is, got GPU 1');
      plant('');
    }
    target.dispose();
    expect(lane(source, target)).toMatch(/^ERR_BLOCKSTEP_DISPOSED: /);
  });

  it.each([
    ['mode', ['fast', 1]],
    ['completion', ['poll', '']],
    ['windowBytes', [0, -1, 1.5, Number.NaN, '1', null]],
    ['patienceMs', [0, -1, 1.5, Number.NaN, '1', null]],
  ])('refuses an option that is none, and prints it: %s', (name, values) => {
    using bench = new LaneBench(cudaLanes(TO_GPU));
    for (const value of values) {
      const options = { [name]: value } as CudaLaneOptions;
      const text = refusal(() => new CudaLane(bench.queue, bench.source, bench.target, options));
      expect(text, `${value}`).toMatch(/^ERR_BLOCKSTEP_BAD_ARG: /);
      expect(text).toContain(`${name} must be `);
      // Numbers are printed, and the names of modes; other values by their kind.
      expect(text).toContain(Number.isFinite(value) ? `got ${value}` : 'got ');
    }
  });

  it('refuses what is no step and no stream, and changes nothing', () => {
    using bench = new LaneBench(cudaLanes(TO_GPU));
    const { lane } = bench;
    lane.submit(ids(1), ids(1), 3);
    for (const step of [-1, 1.5, '3', null, 2 ** 53]) {
      expect(codeOf(() => lane.recordStep(step as number, 0n))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const stream of [0, '0', null, -1n, 2n ** 64n]) {
      expect(codeOf(() => lane.recordStep(3, stream as bigint))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(lane.counts()).toMatchObject({ pending: 1, waiting: 1 });
    lane.dispose();
    expect(codeOf(() => lane.recordStep(3, 0n))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('begins jobs of a recorded step without settle, behind what is queued in the stream', () => {
    using executor = new ReferenceExecutor({
      numBlocks: 8,
      blockSize: 4,
      maxModelLen: 32,
      maxNumSeqs: 2,
      device: 'cuda',
    });
    using bench = new LaneBench(cudaLanes(TO_GPU));
    const { lane } = bench;
    const stream = executor.stream!;
    const late = lane.submit(ids(2), ids(2), 6);
    const early = lane.submit(ids(1), ids(1), 5);
    expect(codeOf(() => lane.flush(ids(early)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    lane.recordStep(5, stream);
    expect(lane.counts().waiting).toBe(1);
    lane.flush(ids(early, lane.submit(ids(3), ids(3), 5)));
    expect(bench.origins(1, 2, 3)).toEqual([1, -1, 3]);
    lane.recordStep(4, stream); // changes nothing
    expect(codeOf(() => lane.flush(ids(late)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    lane.recordStep(6, stream);
    lane.flush(ids(late));
    expect(bench.origins(2)).toEqual([2]);
  });
});

describe.skipIf(!isEmulated)('a CUDA lane whose GPU', () => {
  afterEach(() => plant(''));

  it('works meanwhile: nothing waits, and what is given is copied', () => {
    using bench = new LaneBench(cudaLanes(TO_GPU, { mode: 'kernel' }));
    plant('hold'); // a call that waited for the GPU now would wait until it counts as lost
    const job = bench.lane.submit(ids(1), ids(2));
    expect(bench.lane.counts()).toMatchObject({ pending: 1, copies: 0 });
    expect([bench.drain(), bench.target.arrivals(2)]).toEqual([{}, 0]);
    expect(bench.lane.cancel(job)).toBe(true);
    plant('');
    bench.lane.fence();
    expect(bench.drain()).toEqual({ [job]: 'ok' });
    expect([bench.origins(2), bench.target.arrivals(2)]).toEqual([[1], 1]);
  });

  it.each(['cancel', 'fence'] as const)('has one piece of three: the others are kept back by %s', (how) => {
    const PIECE = 1024; // blocks at most
    const shape = { numBlocks: 2 * PIECE + 100, bytesPerBlock: 16 };
    using queue = new CompletionQueue();
    using source = BlockArena.allocate({ ...shape, place: 'pinned' });
    using target = BlockArena.allocate({ ...shape, place: 'device' });
    new Uint8Array(source.buffer).fill(7);
    using lane = new CudaLane(queue, source, target, { mode: 'copies', windowBytes: 1 });
    const all = Int32Array.from({ length: shape.numBlocks }, (_, i) => i);
    if (how === 'cancel') plant('hold'); // it notes first what is done; a fence does not
    const job = lane.submit(all, all);
    if (how === 'cancel') lane.cancel(job);
    plant('');
    lane.fence();
    expect(drainAll(queue)).toEqual({ [job]: 'cancelled' });
    expect(all.map((block) => target.arrivals(block))).toEqual(all.map((block) => +(block < PIECE)));
    plant('');
    const held = [0, PIECE - 1, PIECE, shape.numBlocks - 1].map((block) => target.readBlock(block)[15]);
    expect(held).toEqual([7, 7, 0, 0]);
  });

  it('cannot store completions tells by events, and says so', () => {
    plant('storeless');
    using bench = new LaneBench(cudaLanes(TO_GPU, { mode: 'batch' }));
    expect(bench.lane.info.completion).toBe('event');
    bench.lane.flush(ids(bench.lane.submit(ids(1), ids(2))));
    expect(bench.origins(2)).toEqual([1]);
    const forced = () =>
      new CudaLane(bench.queue, bench.source, bench.target, { mode: 'batch', completion: 'write-value' });
    expect(refusal(forced)).toMatch(/^ERR_BLOCKSTEP_CUDA: .*cuStreamWriteValue64/);
  });

  it('fails one call costs a job or the lane, and tells of each job once', () => {
    let failed = 0;
    let lost = 0;
    for (let call = 1; call <= 30; call++) {
      using bench = new LaneBench(cudaLanes(TO_GPU, { mode: 'copies' }));
      const { lane } = bench;
      const jobs = new Map<number, number>();
      plant(`fail=${call}`);
      for (let block = 0; block < NUM_BLOCKS - 3; block += 3) {
        try {
          jobs.set(lane.submit(ids(block, block + 2), ids(block, block + 2)), block);
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_CUDA' });
        }
      }
      lane.fence();
      plant('');
      const ended = bench.drain();
      expect(Object.keys(ended).map(Number), `call ${call}`).toEqual([...jobs.keys()]);
      for (const [job, block] of jobs) {
        if (ended[job] === 'ok') expect(bench.origins(block, block + 2)).toEqual([block, block + 2]);
        else expect(ended[job]).toBe('failed');
        if (ended[job] === 'failed') failed++;
      }
      if (refusal(() => lane.submit(ids(1), ids(1))).startsWith('ERR_BLOCKSTEP_CUDA')) lost++;
    }
    expect(failed).toBeGreaterThan(5);
    expect(lost).toBeLessThan(30);
  });

  for (const completion of ['write-value', 'event'] as const) {
    it.each(['flush', 'fence', 'drain', 'dispose'] as const)(
      `is lost fails every job, whoever notes it: ${completion}, %s`,
      (how) => {
        using bench = new LaneBench(cudaLanes(TO_GPU, { mode: 'kernel', completion }));
        const { lane, queue } = bench;
        const waits = lane.submit(ids(5), ids(5), 9);
        plant('delay=2000,lose=2');
        const first = lane.submit(ids(1), ids(1));
        const second = lane.submit(ids(2), ids(2));
        const ended: Record<number, string> = {};
        if (how === 'flush') lane.flush(ids(second));
        else if (how === 'fence') lane.fence();
        else if (how === 'dispose') lane.dispose();
        const end = performance.now() + PATIENCE_MS;
        while (queue.inFlight > 0 && performance.now() < end) Object.assign(ended, bench.drain());
        expect(ended[second]).toBe('failed');
        // The job was dropped before the loss was noted, or failed with the others.
        const fenced = how === 'fence' || how === 'dispose';
        expect(fenced ? ['cancelled', 'failed'] : ['failed']).toContain(ended[waits]);
        expect(Object.keys(ended).map(Number)).toEqual([waits, first, second]);
        plant('');
        if (how === 'dispose') return;
        for (const call of [() => lane.submit(ids(3), ids(3)), () => lane.recordStep(1, 0n)]) {
          expect(refusal(call)).toMatch(/^ERR_BLOCKSTEP_CUDA: the lane lost its GPU: /);
        }
        lane.settle(10);
        lane.fence();
        lane.flush(ids(second));
        expect([lane.cancel(second), lane.counts().pending]).toEqual([false, 0]);
        expect(queue.inFlight).toBe(0);
      },
    );
  }

  it('does not say what it has done counts as lost', () => {
    using bench = new LaneBench(cudaLanes(TO_GPU, { mode: 'batch', completion: 'write-value' }));
    plant('mute');
    const job = bench.lane.submit(ids(1), ids(1));
    bench.lane.flush(ids(job));
    expect(bench.drain()).toEqual({ [job]: 'failed' });
    expect(refusal(() => bench.lane.submit(ids(2), ids(2)))).toContain('its word of that did not come');
  });
});
