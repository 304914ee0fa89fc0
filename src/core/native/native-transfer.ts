// The interface of native lanes, arenas and completion rings.

/**
 * The slots of a completion queue, see `CompletionQueue`. Like every native object, a ring is used
 * by one thread.
 */
export interface NativeRing {
  /**
   * Gives out a job number for a transfer that the caller completes. @throws
   * ERR_BLOCKSTEP_RING_FULL
   */
  begin(): number;
  /**
   * Completes a job that `begin` gave out.
   * @param verdict 1 = ok, 2 = failed, 3 = cancelled
   * @returns one of `Posted`
   */
  post(job: number, verdict: number): number;
  /**
   * Takes the completions that have come, as many as `out` has room for.
   * @param out gets two words first: the number of dropped completions from before a reset, and the
   * number of words for jobs that were over. Then follow the job and the verdict of each completion
   * @returns how many completions were taken
   */
  drain(out: Int32Array): number;
  /**
   * Forgets the jobs in flight. Their completions are dropped when they come.
   * @returns how many jobs were in flight
   */
  reset(): number;
  inFlight(): number;
  counts(): { inFlight: number; abandoned: number; late: number };
  dispose(): void;
}

/** The fate of a completion that was posted from outside. */
export const Posted = { unknown: -1, late: 0, taken: 1, owned: 2 } as const;

/** Words in front of the completions of a drain. */
export const DRAIN_HEADER = 2;

/** The largest job number. Jobs are numbered from 1 to this, then from 1 again. */
export const MAX_JOB = 2 ** 31 - 1;

/**
 * The place of memory: `host`: on the host; `pinned`: on the host, registered with CUDA; `device`:
 * on a GPU.
 */
export type Place = 'host' | 'pinned' | 'device';

export interface NativeArenaConfig {
  numBlocks: number;
  /** At most 2^31 - 1. */
  bytesPerBlock: number;
  /** Default 'host'. */
  place?: Place;
  /** Number of the GPU, as CUDA counts them. Default 0. */
  device?: number;
}

/** The id of an arena: 32 hexadecimal digits. Other processes can map an arena with an id. */
export interface NativeShared {
  shareId?: string | undefined;
}

/** The arena to attach, see `ArenaDescriptor`. */
export interface NativeAttach {
  id: string;
  /** The process that made the arena. Used only if this process has no arena of this id. */
  pid: number;
  /** The arena's file in that process, as `NativeArena.share` returned it. */
  file: number;
  numBlocks: number;
  bytesPerBlock: number;
}

/** Blocks of native memory, see `BlockArena`. */
export interface NativeArena {
  /**
   * A new ArrayBuffer over all of the memory, which is shared and not copied. The memory stays as
   * long as the ArrayBuffer does.
   * @throws ERR_BLOCKSTEP_LIMIT for an arena of 4 GiB or more, for an arena on a GPU, and if the
   * JavaScript runtime allows no such ArrayBuffer
   */
  buffer(): ArrayBuffer;
  /** Address of the first block. */
  pointer(): bigint;
  /**
   * Copies one block out. Waits for a GPU.
   * @param bytes gets the block, and has exactly its size
   * @throws ERR_BLOCKSTEP_CUDA
   */
  readBlock(block: number, bytes: Uint8Array): void;
  /**
   * Copies one block in. Waits for a GPU.
   * @param bytes the block's new content, of exactly its size
   * @throws ERR_BLOCKSTEP_CUDA
   */
  writeBlock(block: number, bytes: Uint8Array): void;
  /** How often lanes have filled the block. */
  arrivals(block: number): number;
  /**
   * Lets other threads of this process find the arena under `id`.
   * @param id 32 hexadecimal digits; that of `shareId` if the arena has one
   * @returns the file by which other processes find the arena; null if they cannot
   */
  share(id: string): number | null;
  /** Releases this object's share of the memory. */
  dispose(): void;
}

export interface NativeLaneConfig {
  /** Threads that copy, 1 to 16. */
  threads: number;
  /** Most bytes that are copied at once, but at least one block. */
  pieceBytes: number;
}

/** The common methods of all lanes, see `Lane`. */
export interface NativeLane {
  submit(sources: Int32Array, targets: Int32Array, notBefore: number): number;
  settle(step: number): void;
  cancel(job: number): boolean;
  flush(jobs: Int32Array): void;
  fence(): void;
  counts(): { pending: number; waiting: number; bytes: number; copies: number };
  dispose(): void;
}

/** How a CUDA lane copies. `auto`: by the kernel, if it can copy blocks of this size. */
export type CopyMode = 'auto' | 'batch' | 'kernel' | 'copies';

/** How the GPU reports which copies it has done. */
export type CompletionMode = 'auto' | 'write-value' | 'event';

export interface NativeCudaLaneConfig {
  mode: CopyMode;
  completion: CompletionMode;
  windowBytes: number;
  patienceMs: number;
}

export interface NativeCudaLaneInfo {
  device: number;
  mode: 'batch' | 'kernel' | 'copies';
  completion: 'write-value' | 'event';
}

/** A lane whose copies a GPU makes, see `CudaLane`. */
export interface NativeCudaLane extends NativeLane {
  recordStep(step: number, stream: bigint): void;
  info(): NativeCudaLaneInfo;
}
