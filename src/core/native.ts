import type { NativeDeviceReference, NativeReference, NativeReferenceConfig } from './native-reference.js';
import type { NativeDeviceGather } from './native-tables.js';
import type {
  NativeArena,
  NativeArenaConfig,
  NativeCudaLane,
  NativeCudaLaneConfig,
  NativeLane,
  NativeLaneConfig,
  NativeRing,
} from './native-transfer.js';

/**
 * The border between TypeScript and native code. Native code checks every argument before it changes anything and
 * throws an error with a stable code; it trusts only what the scheduler itself wrote into the exchange buffer, and
 * poisons the core (ERR_BLOCKSTEP_INVARIANT) where that does not hold.
 */
export interface NativeConfig {
  /** Blocks of the pool, the null block 0 included: ids 1 to numBlocks - 1 are handed out. */
  numBlocks: number;
  /** Tokens per block. */
  blockSize: number;
  /** Rows of the KV slot table: how many requests may hold blocks at once. */
  numRows: number;
  maxBlocksPerRow: number;
  /** Entries per frame of the exchange buffer. */
  maxEntries: number;
  numFrames: number;
  /** Operations that the exchange buffer holds between two native entries. */
  pendingCapacity: number;
  /** Slots that run() reserves beyond the scheduled tokens (speculative decoding). */
  lookahead: number;
  maxModelLen: number;
  enablePrefixCaching: boolean;
  /** 16 bytes: the key of the block hash. */
  hashSeed: Uint8Array;
  /** A GPU that keeps a second instance of the state; absent: none. */
  cuda?: NativeCudaConfig;
  /**
   * Who decides which blocks a request gets (default `host`). `device`: the GPU, and the host's state follows. Then `run`
   * and `admit` throw ERR_BLOCKSTEP_AUTHORITY; otherwise `submitDecision` and `pollDecision` do.
   */
  authority?: 'host' | 'device';
}

/** Where and how the second instance is kept. */
export interface NativeCudaConfig {
  /** Number of the GPU, as CUDA counts them. */
  device: number;
  /** The executor's cudaStream_t, into which every launch goes; null: a stream of our own, of the highest priority. */
  stream: bigint | null;
  /** Logs that may be on their way at once, 1 to 64. */
  maxLogs: number;
}

/** Whether one back end can be used on this machine. */
export interface BackendReport {
  readonly name: 'host' | 'cuda';
  readonly usable: boolean;
  /** What was found: a GPU by name, or what is missing, in words. */
  readonly reason: string;
}

/** What a replay of a recorded log ends with. */
export interface ReplayResult {
  digest: bigint;
  rollingDigest: bigint;
  commands: number;
  freeBlocks: number;
}

/** What the native side holds, in bytes. Untouched pages of the state cost address space only. */
export interface NativeMemory {
  stateBytes: number;
  bytesPerBlock: number;
  tableBytes: number;
  /** On the GPU; 0 without a mirror. */
  deviceBytes: number;
  /** Of the host, pinned, for the mirror; 0 without one. */
  pinnedBytes: number;
}

/** A constructor that native code makes its errors with, so that they are of the one error class. */
export type NativeErrorClass = new (code: never, message: string) => Error;

export interface NativeAddon {
  readonly abi: 4;
  /** The back ends that were compiled into this binary. */
  readonly backends: readonly string[];
  /** Tries every back end, CUDA on this GPU: makes a context there and tests mapped memory. */
  probe(device: number): BackendReport[];
  /** From now on this copy of the addon throws errors of this class instead of plain Error objects with a code. */
  useErrorClass(errorClass: NativeErrorClass): void;
  create(config: NativeConfig, exchange: ArrayBuffer): NativeCore;
  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY */
  createReference(config: NativeReferenceConfig): NativeReference;
  /** On this GPU. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA */
  createDeviceReference(config: NativeReferenceConfig, device: number): NativeDeviceReference;
  /** Room for so many transfers at once, 1 to 2^20. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY */
  createRing(capacity: number): NativeRing;
  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA */
  createArena(config: NativeArenaConfig): NativeArena;
  /**
   * From one arena to another with blocks of the same size.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_LIMIT if a thread cannot be started, ERR_BLOCKSTEP_DISPOSED
   */
  createLane(
    ring: NativeRing,
    source: NativeArena,
    target: NativeArena,
    config: NativeLaneConfig,
  ): NativeLane;
  /**
   * The same by a GPU.
   * @throws ERR_BLOCKSTEP_BAD_ARG also for memory that CUDA does not know, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_NO_MEMORY,
   * ERR_BLOCKSTEP_DISPOSED
   */
  createCudaLane(
    ring: NativeRing,
    source: NativeArena,
    target: NativeArena,
    config: NativeCudaLaneConfig,
  ): NativeCudaLane;
  /** Checks each batch of a recorded log and applies it to a fresh state of the same configuration. */
  replay(config: NativeConfig, log: Uint32Array): ReplayResult;
}

/**
 * The block manager, the request table and the KV slot table of one engine. Every method but memory() and dispose()
 * first applies what is pending in the exchange buffer; every one refreshes the counts in its control words.
 */
export interface NativeCore extends NativeDeviceGather {
  /**
   * Extends the rows of entries [from, to) of a frame in order, publishes their full blocks, and writes numBlocks and
   * numNewBlocks. Stops at the first entry that does not fit; returns how many were done.
   * @throws ERR_BLOCKSTEP_NO_ROW, ERR_BLOCKSTEP_BAD_SLOT or ERR_BLOCKSTEP_BAD_ARG for an entry that makes no sense;
   * nothing is done then
   */
  run(frame: number, from: number, to: number): number;
  /** Opens a slot for a prompt and hashes its full blocks. "" stands for no adapter and no salt. Returns the handle. */
  add(tokens: Int32Array, adapter: string, salt: string): number;
  /** Length of the leading run of cached blocks of the slot, at most maxBlocks. Sets hitFree. */
  match(slot: number, maxBlocks: number): number;
  /**
   * Gives the slot a row with its first hitBlocks cached blocks, or extends the row that it has; all or nothing.
   * The blocks must suffice for needTokens, and for reserveTokens too if that is more; hits that lie in the free queue
   * count as taken. Full blocks up to publishTokens are published. Returns the row, -1 if the blocks do not suffice, or
   * -2 if they do and no row is free. If something happened since match(), the hits are looked up again.
   * @throws ERR_BLOCKSTEP_BAD_ARG if fewer than hitBlocks are cached by now, or if the slot holds a row already and
   * hitBlocks is not 0
   */
  admit(
    slot: number,
    hitBlocks: number,
    reserveTokens: number,
    needTokens: number,
    publishTokens: number,
  ): number;
  /**
   * Has the GPU decide a step: entries [from, to) of a frame, as in run(), and then admissions, each as match() and admit()
   * would decide it, up to the first that does not fit. `request` and what becomes of it: `decision.ts`. What is pending
   * goes before it. At most one decision is under way; until pollDecision() has brought it, queries see the state before it,
   * add() works, and every other method throws ERR_BLOCKSTEP_DECISION_PENDING.
   * @throws ERR_BLOCKSTEP_NO_ROW, ERR_BLOCKSTEP_BAD_SLOT or ERR_BLOCKSTEP_BAD_ARG for an entry or an admission that makes no
   * sense, ERR_BLOCKSTEP_AUTHORITY, ERR_BLOCKSTEP_DECISION_PENDING; nothing is asked for then. ERR_BLOCKSTEP_CUDA
   */
  submitDecision(frame: number, from: number, to: number, request: Int32Array): void;
  /**
   * False: the decision has not come yet. True: the state has followed it, numBlocks and numNewBlocks of the entries that
   * were done are written, and so is `answer`, see `decision.ts`. Never waits.
   * @throws ERR_BLOCKSTEP_BAD_ARG if none is under way, or if `answer` is too short for all admissions that were asked for;
   * ERR_BLOCKSTEP_AUTHORITY; ERR_BLOCKSTEP_CUDA, and ERR_BLOCKSTEP_MIRROR if the host cannot follow: as every method does
   * from then on
   */
  pollDecision(answer: Int32Array): boolean;
  commonPrefix(slot: number): number;
  /**
   * Gives a frame its tables: a buffer of fixed length and of exactly the bytes that `tablesBytes` says. It is kept, and
   * filled with padding.
   * @throws ERR_BLOCKSTEP_BAD_ARG if the buffer does not fit, or if the frame has tables already
   */
  bindTables(frame: number, tables: ArrayBuffer, maxTokens: number): void;
  /**
   * Fills the frame's tables with its first numEntries entries; see `StepTables`.
   * @throws ERR_BLOCKSTEP_NO_ROW, ERR_BLOCKSTEP_BAD_SLOT or ERR_BLOCKSTEP_BAD_ARG for an entry that makes no sense or
   * lacks blocks, ERR_BLOCKSTEP_DETACHED if the tables are gone; nothing is written then
   */
  gather(frame: number, numEntries: number): void;
  flush(): void;
  pin(ids: Int32Array): void;
  unpin(ids: Int32Array): void;
  evict(ids: Int32Array): void;
  /** Drops every published key. False, and nothing done, if any block but the null block is in use. */
  reset(): boolean;
  /** Handle of the slot's present incarnation, or 0 if it is closed. */
  handle(slot: number): number;
  numTokens(slot: number): number;
  readTokens(slot: number, from: number, out: Int32Array): number;
  readBlocks(slot: number, from: number, out: Int32Array): number;
  /** The free queue, head (next to be taken) first. Returns the number of ids written. */
  readFreeQueue(out: Int32Array): number;
  /** Ids of the blocks that carry a hash, ascending. Returns the number of ids written. */
  readPublished(out: Int32Array): number;
  refCount(id: number): number;
  blockGeneration(id: number): number;
  /** The 128-bit chained hash of a full block of the slot's tokens. */
  blockHash(slot: number, index: number): bigint;
  /** Throws ERR_BLOCKSTEP_INVARIANT naming what broke. */
  verify(): void;
  digest(): bigint;
  rollingDigest(): bigint;
  /**
   * The end of a step: the mirror is given the logs since the last one, in one launch unless it is behind. With a
   * cudaStream_t: behind all that is queued there, and before what will be. Without a mirror nothing happens.
   * @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR; as every method does from then on
   */
  submit(stream?: bigint | null): void;
  /** Takes what has come back from the mirror. True: all of it has, and no digest is under way. Never waits. */
  poll(): boolean;
  /**
   * Has the mirror make a digest of its state as it is after all calls so far, to be compared with the host's.
   * @throws ERR_BLOCKSTEP_LIMIT if one is under way
   */
  startMirrorDigest(): void;
  /** The digest that was asked for last once it has come and is the host's, otherwise null. The host's without a mirror. */
  mirrorDigest(): bigint | null;
  record(on: boolean): void;
  /** The facts since the last take: per batch its length in words, then the words. */
  takeLog(): Uint32Array;
  memory(): NativeMemory;
  dispose(): void;
}
