/** An array in the memory of a GPU, as native code describes it. */
export interface NativeDeviceArray {
  pointer: bigint;
  shape: number[];
  dtype: 'int32' | 'int64';
}

/** The tables of a step on a GPU. */
export interface NativeDeviceTables {
  /** Address of a `struct blockstep_tables` in memory of the host; see native/include/blockstep_tables.h. */
  descriptor: bigint;
  /** Number of the GPU, as CUDA counts them. */
  device: number;
  /** In the order of the struct, which is that of `TABLE_NAMES`. */
  arrays: NativeDeviceArray[];
}

/**
 * The part of a native core that has to do with the tables of a step on a GPU. All but the first throw
 * ERR_BLOCKSTEP_BAD_ARG before there are any.
 */
export interface NativeDeviceGather {
  /**
   * Makes the tables on the GPU of the mirror, all padding, at the first call.
   * @throws ERR_BLOCKSTEP_CUDA without a mirror, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_BAD_ARG for another maxTokens than
   * at the first call
   */
  makeDeviceTables(maxTokens: number): NativeDeviceTables;
  /**
   * As gather(), but done by the GPU, behind all that happened before this call; with a cudaStream_t behind what is queued
   * there, and before what will be. Returns when it is on its way.
   * @throws as gather() does, nothing sent; ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR: the core does nothing more
   */
  gatherOnDevice(frame: number, numEntries: number, stream?: bigint | null): void;
  /** Gathers that were given to the GPU, ever, and those of them that are done, as it says itself. Neither waits. */
  gathersGiven(): number;
  gathersDone(): number;
  /** Gathers that had to wait for the GPU before they could be given to it. */
  gatherWaits(): number;
  /** Waits for the GPU, and copies an array, by its place in `TABLE_NAMES`, into a buffer of exactly its size. */
  readDeviceTable(table: number, out: ArrayBuffer): void;
}

/** What decides how large a set of tables is. */
export interface TablesShape {
  /** Most tokens of one step. */
  readonly maxTokens: number;
  /** Most entries of one step. */
  readonly maxEntries: number;
  readonly maxBlocksPerRow: number;
}
