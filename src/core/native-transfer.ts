/** The slots of a completion queue; see `CompletionQueue`. Used by one thread, as every native object is. */
export interface NativeRing {
  /** Gives out a job for a transfer that somebody outside completes. @throws ERR_BLOCKSTEP_RING_FULL */
  begin(): number;
  /** Completes a job that `begin` gave out: 1 ok, 2 failed, 3 cancelled. @returns one of `Posted` */
  post(job: number, verdict: number): number;
  /**
   * Takes the completions that have come, as many as `out` has room for. `out` begins with two words: how many completions of
   * jobs from before a reset were dropped, and how many words came for jobs that were over. Behind them stand the job and the
   * verdict of each completion.
   * @returns how many completions were taken
   */
  drain(out: Int32Array): number;
  /** Forgets the jobs in flight: their completions are dropped from now on. @returns how many there were */
  reset(): number;
  inFlight(): number;
  counts(): { inFlight: number; abandoned: number; late: number };
  dispose(): void;
}

/** What became of a foreign completion. */
export const Posted = { unknown: -1, late: 0, taken: 1, owned: 2 } as const;

/** Words before the completions of a drain. */
export const DRAIN_HEADER = 2;

/** Jobs are numbered from 1 to this, then from 1 again. */
export const MAX_JOB = 2 ** 31 - 1;

/** Where memory is: on the host; on the host and known to CUDA; or on a GPU. */
export type Place = 'host' | 'pinned' | 'device';

export interface NativeArenaConfig {
  numBlocks: number;
  /** At most 2^31 - 1. */
  bytesPerBlock: number;
  /** Default 'host'. */
  place?: Place;
  /** Which GPU, as CUDA counts them. Default 0. */
  device?: number;
}

/** Blocks of native memory; see `BlockArena`. */
export interface NativeArena {
  /**
   * The memory, shared and not copied, as a new ArrayBuffer over all of it. It stays as long as the ArrayBuffer does.
   * @throws ERR_BLOCKSTEP_LIMIT for an arena of 4 GiB or more, for one on a GPU, and where the runtime allows no such
   * ArrayBuffer
   */
  buffer(): ArrayBuffer;
  /** Address of the first block. */
  pointer(): bigint;
  /** Copies a block out; `bytes` has its size. Waits for a GPU. @throws ERR_BLOCKSTEP_CUDA */
  readBlock(block: number, bytes: Uint8Array): void;
  /** Copies a block in; `bytes` has its size. Waits for a GPU. @throws ERR_BLOCKSTEP_CUDA */
  writeBlock(block: number, bytes: Uint8Array): void;
  /** How often a lane has filled the block. */
  arrivals(block: number): number;
  /** Gives up this share of the memory. */
  dispose(): void;
}

export interface NativeLaneConfig {
  /** 1 to 16. */
  threads: number;
  /** Most bytes that are copied in one go; one block at least. */
  pieceBytes: number;
}

/** What every lane has. */
export interface NativeLane {
  submit(sources: Int32Array, targets: Int32Array, notBefore: number): number;
  settle(step: number): void;
  cancel(job: number): boolean;
  flush(jobs: Int32Array): void;
  fence(): void;
  counts(): { pending: number; waiting: number; bytes: number; copies: number };
  dispose(): void;
}

/** How a CUDA lane copies: `auto` takes the kernel for small runs and batches, or else single copies, for the others. */
export type CopyMode = 'auto' | 'batch' | 'kernel' | 'copies';

/** How the GPU says which copies it has done. */
export type CompletionMode = 'auto' | 'write-value' | 'event';

export interface NativeCudaLaneConfig {
  mode: CopyMode;
  completion: CompletionMode;
  /** Runs of fewer bytes are copied by the kernel; null: the limit is measured. */
  cut: number | null;
  windowBytes: number;
  patienceMs: number;
}

export interface NativeCudaLaneInfo {
  device: number;
  mode: 'batch' | 'kernel' | 'copies';
  completion: 'write-value' | 'event';
  cuts: { runs: number; bytes: number }[];
  calibrationMs: number;
}

/** A lane whose copies a GPU makes; see `CudaLane`. */
export interface NativeCudaLane extends NativeLane {
  recordStep(step: number, stream: bigint): void;
  info(): NativeCudaLaneInfo;
}
