// Arenas, blocks and drained completions.
import { Anomalies } from '../../src/index.js';
import {
  BlockArena,
  CompletionQueue,
  HostLane,
  type HostLaneOptions,
  type Lane,
  Verdict,
} from '../../src/transfer.js';

export const NUM_BLOCKS = 24;
/** A size that every way of copying can copy; a kernel takes blocks of a multiple of 16 bytes. */
export const BLOCK_BYTES = 112;

/** Block ids. */
export const ids = (...blocks: number[]) => Int32Array.from(blocks);

/** The bytes that fill() writes into a block. */
export function bytesOf(block: number, version: number, length = BLOCK_BYTES): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => block * 7 + version * 101 + i * 3);
}

export function fill(arena: BlockArena, version: number): void {
  for (let block = 0; block < arena.numBlocks; block++) {
    arena.writeBlock(block, bytesOf(block, version, arena.bytesPerBlock));
  }
}

type Shape = Pick<BlockArena, 'numBlocks' | 'bytesPerBlock'>;

/** The arenas and options of a lane, and the memories between which it copies. */
export interface LaneKind<L extends Lane & Disposable> {
  makeSource(shape: Shape): BlockArena;
  makeTarget(shape: Shape): BlockArena;
  makeLane(queue: CompletionQueue, source: BlockArena, target: BlockArena): L;
}

export function hostLanes(options: HostLaneOptions = {}): LaneKind<HostLane> {
  return {
    makeSource: (shape) => BlockArena.allocate(shape),
    makeTarget: (shape) => BlockArena.allocate(shape),
    makeLane: (queue, source, target) => new HostLane(queue, source, target, options),
  };
}

/** A lane between two small arenas, and its queue: the source holds version 1 everywhere, the target version 2. */
export class LaneBench<L extends Lane & Disposable> {
  readonly anomalies = new Anomalies(false);
  readonly queue: CompletionQueue;
  readonly source: BlockArena;
  readonly target: BlockArena;
  readonly lane: L;

  constructor(kind: LaneKind<L>, capacity = 64, shape: Partial<Shape> = {}) {
    const taken = { numBlocks: NUM_BLOCKS, bytesPerBlock: BLOCK_BYTES, ...shape };
    this.queue = new CompletionQueue({ capacity, anomalies: this.anomalies });
    this.source = kind.makeSource(taken);
    this.target = kind.makeTarget(taken);
    fill(this.source, 1);
    fill(this.target, 2);
    this.lane = kind.makeLane(this.queue, this.source, this.target);
  }

  /** The jobs that have ended, with their verdicts. */
  drain(): Record<number, string> {
    return drainAll(this.queue);
  }

  /**
   * Which block of the source each of these blocks of the target holds; -1: the block held its
   * first bytes.
   */
  origins(...blocks: number[]): number[] {
    const { numBlocks, bytesPerBlock } = this.source;
    return blocks.map((block) => {
      const found = Buffer.from(this.target.readBlock(block));
      if (found.equals(bytesOf(block, 2, bytesPerBlock))) return -1;
      const all = Array.from({ length: numBlocks }, (_, i) => i);
      return all.findIndex((i) => found.equals(bytesOf(i, 1, bytesPerBlock)));
    });
  }

  [Symbol.dispose](): void {
    this.lane.dispose();
    this.source.dispose();
    this.target.dispose();
    this.queue.dispose();
  }
}

/** The name of a verdict. */
export function verdictName(verdict: Verdict): string | undefined {
  return Object.entries(Verdict).find(([, value]) => value === verdict)?.[0];
}

export function drainAll(queue: CompletionQueue): Record<number, string> {
  const ended: Record<number, string> = {};
  queue.drain((job: number, verdict: Verdict) => {
    if (job in ended) throw new Error(`job ${job} ended twice`);
    ended[job] = verdictName(verdict) ?? `${verdict}`;
  });
  return ended;
}
