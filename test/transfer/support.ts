import {
  Anomalies,
  BlockArena,
  CompletionQueue,
  HostLane,
  type HostLaneOptions,
  type Verdict,
  verdictName,
} from '../../src/index.js';

export const NUM_BLOCKS = 24;
export const BLOCK_BYTES = 100;

/** Block ids. */
export const ids = (...blocks: number[]) => Int32Array.from(blocks);

/** What fill() writes into a block. */
export function bytesOf(block: number, version: number, length = BLOCK_BYTES): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => block * 7 + version * 101 + i * 3);
}

export function fill(arena: BlockArena, version: number): void {
  for (let block = 0; block < arena.numBlocks; block++) {
    arena.block(block).set(bytesOf(block, version, arena.bytesPerBlock));
  }
}

/** A lane between two small arenas, and its queue: the source holds version 1 everywhere, the target version 2. */
export class LaneBench {
  readonly anomalies = new Anomalies(false);
  readonly queue: CompletionQueue;
  readonly source = BlockArena.allocate({ numBlocks: NUM_BLOCKS, bytesPerBlock: BLOCK_BYTES });
  readonly target = BlockArena.allocate({ numBlocks: NUM_BLOCKS, bytesPerBlock: BLOCK_BYTES });
  readonly lane: HostLane;

  constructor(options: HostLaneOptions = {}, capacity = 64) {
    this.queue = new CompletionQueue({ capacity, anomalies: this.anomalies });
    fill(this.source, 1);
    fill(this.target, 2);
    this.lane = new HostLane(this.queue, this.source, this.target, options);
  }

  /** What has ended, by job. */
  drain(): Record<number, string> {
    return drainAll(this.queue);
  }

  /** Which block of the source each of these blocks of the target holds; -1: what it held at first. */
  origins(...blocks: number[]): number[] {
    return blocks.map((block) => {
      const found = Buffer.from(this.target.block(block));
      if (found.equals(bytesOf(block, 2))) return -1;
      return Array.from({ length: NUM_BLOCKS }, (_, i) => i).findIndex((i) => found.equals(bytesOf(i, 1)));
    });
  }

  [Symbol.dispose](): void {
    this.lane.dispose();
    this.source.dispose();
    this.target.dispose();
    this.queue.dispose();
  }
}

export function drainAll(queue: CompletionQueue): Record<number, string> {
  const ended: Record<number, string> = {};
  queue.drain((job: number, verdict: Verdict) => {
    if (job in ended) throw new Error(`job ${job} ended twice`);
    ended[job] = verdictName(verdict);
  });
  return ended;
}
