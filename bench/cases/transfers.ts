// Completions, submitted copies, a host lane beside `memcpy`.
import { BlockArena, CompletionQueue, HostLane, Verdict } from '../../src/transfer.js';
import { type Effort, measure, type Subject } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';

export const TRANSFERS_EFFORT: Effort = { samples: 2000, warmup: 300 };

const COMPLETIONS = 1000;
const SUBMITS = 100;
const KIB = 1024;
/** Bytes of one copy: far more than a cache of the processor holds. */
const TOTAL = 64 * KIB * KIB;
const BLOCK_SIZES = { '4 KiB': 4, '16 KiB': 16, '64 KiB': 64, '256 KiB': 256, '1 MiB': 1024 } as const;

/**
 * Draining completions, submitting jobs, and the speed of a host lane. That speed is a multiple of
 * memcpy's on the calling thread in the same minute. Blocks that lie scattered on both sides are
 * compared with one memcpy per block in the same order. One run of consecutive blocks is compared
 * with one memcpy of all of it.
 */
export function benchTransfers(effort: Effort): Row[] {
  const drains = [
    timeRow('transfers', 'drain 1,000', measure(drain(COMPLETIONS), effort), COMPLETIONS),
    timeRow('transfers', 'drain 0 of 1,000', measure(drain(0), effort), COMPLETIONS),
  ];
  const submits = [
    timeRow('transfers', 'submit 1 block', measure(submit(1), effort)),
    timeRow('transfers', 'submit 128 blocks', measure(submit(128), effort)),
    timeRow('transfers', 'submit 1 block to an idle lane', measure(wake(), effort)),
  ];
  const samples = Math.max(5, Math.ceil(effort.samples / 60));
  return [...drains, ...submits, ...throughput(samples)];
}

/** Drains a queue with 1,000 jobs in flight, of which `ended` have ended. */
function drain(ended: number): Subject {
  const queue = new CompletionQueue({ capacity: 2 * COMPLETIONS });
  let sum = 0;
  const visit = (job: number, verdict: Verdict): void => {
    sum += job + verdict;
  };
  const jobs = new Int32Array(COMPLETIONS);
  return {
    before: () => {
      for (let i = 0; i < COMPLETIONS; i++) jobs[i] = queue.begin();
      for (let i = 0; i < ended; i++) queue.post(jobs[i], Verdict.ok);
    },
    run: () => {
      if (queue.drain(visit) !== ended) throw new Error('completions are missing');
      return undefined;
    },
    after: () => {
      for (let i = ended; i < COMPLETIONS; i++) queue.post(jobs[i], Verdict.cancelled);
      queue.drain(visit);
      if (queue.inFlight !== 0 || sum === 0) throw new Error('jobs are left');
    },
  };
}

function smallLane(): { queue: CompletionQueue; lane: HostLane } {
  const shape = { numBlocks: 256, bytesPerBlock: 64 };
  const queue = new CompletionQueue();
  return { queue, lane: new HostLane(queue, BlockArena.allocate(shape), BlockArena.allocate(shape)) };
}

/** Submits jobs that wait for a step, so that no thread copies meanwhile. No two of their blocks are consecutive. */
function submit(numBlocks: number): Subject {
  const { queue, lane } = smallLane();
  const blocks = Int32Array.from({ length: numBlocks }, (_, i) => (i * 37) % 256);
  return {
    batch: SUBMITS,
    run: () => {
      for (let i = 0; i < SUBMITS; i++) lane.submit(blocks, blocks, 1);
      return undefined;
    },
    after: () => {
      lane.fence();
      queue.drain(() => {});
    },
  };
}

/** Submits a job to an idle lane, whose thread has to be woken. */
function wake(): Subject {
  const { queue, lane } = smallLane();
  const blocks = Int32Array.of(1);
  let job = 0;
  return {
    run: () => {
      job = lane.submit(blocks, blocks);
      return undefined;
    },
    after: () => {
      lane.flush(Int32Array.of(job));
      queue.drain(() => {});
    },
  };
}

function throughput(samples: number): Row[] {
  const rows: Row[] = [];
  for (const [name, kib] of Object.entries(BLOCK_SIZES)) {
    const bytesPerBlock = kib * KIB;
    const numBlocks = TOTAL / bytesPerBlock;
    const source = BlockArena.allocate({ numBlocks, bytesPerBlock });
    const target = BlockArena.allocate({ numBlocks, bytesPerBlock });
    const [from, to] = [new Uint8Array(source.buffer).fill(3), new Uint8Array(target.buffer).fill(4)];
    const queue = new CompletionQueue();
    const lane = new HostLane(queue, source, target);
    const inOrder = Int32Array.from({ length: numBlocks }, (_, i) => i);
    // An odd stride visits every block once, and never two neighbours in a row.
    const scattered = inOrder.map((i) => (i * 37) % numBlocks);
    const copy = (blocks: Int32Array) => () => {
      lane.flush(Int32Array.of(lane.submit(blocks, blocks)));
      queue.drain(() => {});
    };
    const views = Array.from(scattered, (i) => ({ from: source.block(i), to: target.block(i) }));
    const byBlock = () => {
      for (const view of views) view.to.set(view.from);
    };
    const times = alternate([byBlock, copy(scattered), () => to.set(from), copy(inOrder)], samples);
    rows.push(ratioRow(`lane / memcpy, ${name} scattered`, times[0] / times[1]));
    rows.push(ratioRow(`lane / memcpy, ${name} in one run`, times[2] / times[3]));
    if (from[TOTAL - 1] !== to[TOTAL - 1]) throw new Error('the copy is not one');
    lane.dispose();
    for (const arena of [source, target]) arena.dispose();
  }
  return rows;
}

/** The median duration of each call in milliseconds. The calls take turns, so that a busy moment of the machine slows all of them. */
function alternate(calls: readonly (() => void)[], samples: number): number[] {
  const times: number[][] = calls.map(() => []);
  for (let i = 0; i < samples; i++) {
    for (const [which, call] of calls.entries()) {
      const before = performance.now();
      call();
      times[which].push(performance.now() - before);
    }
  }
  return times.map((all) => all.sort((a, b) => a - b)[all.length >> 1]);
}

function ratioRow(name: string, value: number): Row {
  return { group: 'transfers', name, unit: 'ratio', value };
}
