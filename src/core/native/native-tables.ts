// The interface of the native core for the tables of a step on a GPU, and the numbers that set the
// size of tables.

/** An array in the memory of a GPU, as native code describes it. */
export interface NativeDeviceArray {
  pointer: bigint;
  shape: number[];
  dtype: 'int32' | 'int64';
}

/** The tables of a step in the memory of a GPU, as native code describes them. */
export interface NativeDeviceTables {
  /**
   * Address of a `struct blockstep_tables` in memory of the host, see
   * native/include/blockstep_tables.h.
   */
  descriptor: bigint;
  /** Number of the GPU, as CUDA counts them. */
  device: number;
  /**
   * The arrays in the order of the struct, which is the order of `TABLE_NAMES`. Then come the slot
   * mapping and the block table of the second KV cache group, of the third, and so on.
   */
  arrays: NativeDeviceArray[];
}

/**
 * The part of a native core that fills the tables of a step on a GPU. Every method but
 * `makeDeviceTables` throws ERR_BLOCKSTEP_BAD_ARG until `makeDeviceTables` was called.
 */
export interface NativeDeviceGather {
  /**
   * Makes the tables on the GPU of the mirror at the first call. They hold padding alone then.
   * Later calls return the same tables.
   * @param maxTokens most tokens of one step
   * @throws ERR_BLOCKSTEP_CUDA without a mirror, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_BAD_ARG if
   * maxTokens differs from the first call
   */
  makeDeviceTables(maxTokens: number): NativeDeviceTables;
  /**
   * Like `NativeCore.gather`, carried out by the GPU behind all earlier calls. It returns when the
   * gather is on its way.
   * @param stream a cudaStream_t: the gather runs behind its present work, and before its later
   * work; null: the core's own stream
   * @throws the errors of `gather`, and then nothing was sent; ERR_BLOCKSTEP_CUDA,
   * ERR_BLOCKSTEP_MIRROR: the core does nothing more
   */
  gatherOnDevice(frame: number, numEntries: number, stream?: bigint | null): void;
  /** Gathers that were given to the GPU, since the core was made. Never waits. */
  gathersGiven(): number;
  /** Gathers of `gathersGiven` that the GPU has done. Never waits. */
  gathersDone(): number;
  /** Gathers that waited for the GPU before they could be given to it, since the core was made. */
  gatherWaits(): number;
  /**
   * Copies one array of the tables to the host. Waits for the GPU.
   * @param table the array's index in `NativeDeviceTables.arrays`
   * @param out a buffer of exactly the array's size
   */
  readDeviceTable(table: number, out: ArrayBuffer): void;
}

/** The numbers that determine the size of a set of tables. */
export interface TablesShape {
  /** Most tokens of one step. */
  readonly maxTokens: number;
  /** Most entries of one step. */
  readonly maxEntries: number;
  /** Most blocks of one request; with `kvGroups` in the first group. */
  readonly maxBlocksPerRow: number;
}

/** The numbers that determine the size of the tables of one KV cache group. */
export interface GroupShape {
  /** Tokens per block. */
  readonly blockSize: number;
  /** Most places of a request's row, empty places included. */
  readonly maxBlocksPerRow: number;
}
