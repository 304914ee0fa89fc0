// The interface of the native core, method by method.
import type { NativeGroupCalls, NativeGroupConfig } from './native-groups.js';
import type { NativeDeviceReference, NativeReference, NativeReferenceConfig } from './native-reference.js';
import type { NativeDeviceGather } from './native-tables.js';
import type {
  NativeArena,
  NativeArenaConfig,
  NativeAttach,
  NativeCudaLane,
  NativeCudaLaneConfig,
  NativeLane,
  NativeLaneConfig,
  NativeRing,
  NativeShared,
} from './native-transfer.js';

/**
 * The configuration of a native core.
 *
 * Native code is strict at its border. It checks every argument before it changes anything, and
 * throws an error with a stable code. It trusts only the scheduler's own words in the exchange
 * buffer, and poisons the core (ERR_BLOCKSTEP_INVARIANT) if they make no sense.
 */
export interface NativeConfig extends NativeGroupConfig {
  /** Blocks of the KV pool, the null block 0 included. Requests get the ids 1 to numBlocks - 1. */
  numBlocks: number;
  /** Tokens per block. */
  blockSize: number;
  /** Rows of the KV slot table, the number of requests that may hold blocks at once. */
  numRows: number;
  /** Most blocks of one request. */
  maxBlocksPerRow: number;
  /** Entries per frame of the exchange buffer. */
  maxEntries: number;
  /** Frames of the exchange buffer. */
  numFrames: number;
  /** Operations that the exchange buffer holds between two native calls. */
  pendingCapacity: number;
  /** Tokens beyond the scheduled tokens for which run() reserves blocks (speculative decoding). */
  lookahead: number;
  /** Most tokens of one request. */
  maxModelLen: number;
  /** Whether full blocks are published by hash, so that requests with equal prefixes share them. */
  enablePrefixCaching: boolean;
  /** The key of the block hash, 16 bytes. */
  hashSeed: Uint8Array;
  /**
   * Where released blocks without a hash are queued: at the tail, or before the head. Default
   * `tail`.
   */
  freeOrder?: 'tail' | 'unhashedFirst';
  /**
   * The events of the prefix cache in `drainKvEvents`: none; new blocks; in addition, hits of
   * requests. Default off. If on, each log is applied one command at a time.
   */
  kvEvents?: 'off' | 'new' | 'all';
  /**
   * True: each published or dropped block is an event, even if another block has the same hash.
   * Default false.
   */
  kvEventsByBlock?: boolean;
  /** The GPU that keeps a second instance of the state. Absent: there is no second instance. */
  cuda?: NativeCudaConfig;
  /**
   * The side that decides which blocks a request gets. `host` (default): the host; `submitDecision`
   * and `pollDecision` throw ERR_BLOCKSTEP_AUTHORITY. `device`: the GPU, and the host's state
   * follows; `run` and `admit` throw ERR_BLOCKSTEP_AUTHORITY.
   */
  authority?: 'host' | 'device';
}

/** Place and mode of the second instance of the state. */
export interface NativeCudaConfig {
  /** Number of the GPU, as CUDA counts them. */
  device: number;
  /**
   * The executor's cudaStream_t, into which every launch goes. null: a stream of the core's own, of
   * the highest priority.
   */
  stream: bigint | null;
  /** A thread of the core launches the logs. Default: false. */
  launchThread?: boolean;
  /** Logs that may be on their way to the GPU at once, 1 to 64. */
  maxLogs: number;
}

/** Whether one back end can be used on this machine. */
export interface BackendReport {
  /** `host`: the state on the host alone. `cuda`: the state mirrored on the GPU that was tried. */
  readonly name: 'host' | 'cuda';
  /** True: a core can be made with this back end. */
  readonly usable: boolean;
  /** The result in words: the name of the GPU, or the missing part. */
  readonly reason: string;
}

/** The state at the end of a replayed log, in numbers. */
export interface ReplayResult {
  /** Digest of the whole state, as `NativeCore.digest`: equal states have equal digests. */
  digest: bigint;
  /** Digest of the results of all commands, however they were batched. */
  rollingDigest: bigint;
  /** Commands that were applied. */
  commands: number;
  /** Blocks in the free queue, cached ones included. */
  freeBlocks: number;
}

/**
 * Memory that the native side holds, in bytes. Pages of the state that were never touched cost
 * address space only.
 */
export interface NativeMemory {
  stateBytes: number;
  bytesPerBlock: number;
  tableBytes: number;
  /** Memory on the GPU; 0 without a mirror. */
  deviceBytes: number;
  /** Pinned memory of the host for the mirror; 0 without a mirror. */
  pinnedBytes: number;
}

/**
 * The constructor of native code's errors, so that all errors are of the one class BlockstepError.
 */
export type NativeErrorClass = new (code: never, message: string) => Error;

/** The exports of the binary. */
export interface NativeAddon {
  readonly abi: 12;
  /** The back ends that were compiled into this binary. */
  readonly backends: readonly string[];
  /**
   * Tries every back end. CUDA is tried on the given GPU: a context is made there, and mapped
   * memory is tested.
   */
  probe(device: number): BackendReport[];
  /**
   * Lets this copy of the addon throw errors of the given class. Before, it throws plain Error
   * objects with a `code`.
   */
  useErrorClass(errorClass: NativeErrorClass): void;
  /**
   * Makes a signal that ends the process write a line first. Only for the owner of the process.
   * Does nothing on Windows.
   */
  sayFatalSignals(): void;
  /**
   * Takes the operating system's lock of an open file, without waiting. The lock ends when the file
   * is closed, at the latest with the process. A second opening of the file does not get it, even
   * in this process.
   * @returns null: taken; `held`: another opening has it; else why there is no lock, in the words
   * of the system
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  lockFile(fd: number): string | null;
  create(config: NativeConfig, exchange: ArrayBuffer): NativeCore;
  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY */
  createReference(config: NativeReferenceConfig): NativeReference;
  /**
   * Makes a reference executor on a GPU.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA
   */
  createDeviceReference(config: NativeReferenceConfig, device: number): NativeDeviceReference;
  /**
   * Makes a ring for `capacity` transfers at once, 1 to 2^20.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY
   */
  createRing(capacity: number): NativeRing;
  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA */
  createArena(config: NativeArenaConfig & NativeShared): NativeArena;
  /**
   * Attaches an arena that was made elsewhere in this process or machine. @throws
   * ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_LIMIT, ERR_BLOCKSTEP_NO_MEMORY
   */
  attachArena(config: NativeAttach): NativeArena;
  /**
   * Makes a lane from one arena to another. Both have blocks of the same size.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_LIMIT if a thread cannot be started,
   * ERR_BLOCKSTEP_DISPOSED
   */
  createLane(
    ring: NativeRing,
    source: NativeArena,
    target: NativeArena,
    config: NativeLaneConfig,
  ): NativeLane;
  /**
   * Makes a lane whose copies a GPU makes.
   * @throws ERR_BLOCKSTEP_BAD_ARG, also for memory that CUDA does not know, ERR_BLOCKSTEP_CUDA,
   * ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_DISPOSED
   */
  createCudaLane(
    ring: NativeRing,
    source: NativeArena,
    target: NativeArena,
    config: NativeCudaLaneConfig,
  ): NativeCudaLane;
  /**
   * Checks each batch of a recorded log, and applies it to a fresh state of the same configuration.
   */
  replay(config: NativeConfig, log: Uint32Array): ReplayResult;
}

/**
 * The block manager, the request table and the KV slot table of one engine.
 *
 * A method that reads or changes the state first applies the pending operations of the exchange
 * buffer. The counts in the control words are up to date whenever a method returns.
 */
export interface NativeCore extends NativeDeviceGather, NativeGroupCalls {
  /**
   * Extends the rows of entries [from, to) of a frame in order, publishes their full blocks, and
   * writes numBlocks and numNewBlocks. It stops at the first entry for which the free blocks do not
   * suffice.
   * @returns how many entries were done
   * @throws ERR_BLOCKSTEP_NO_ROW, ERR_BLOCKSTEP_BAD_SLOT or ERR_BLOCKSTEP_BAD_ARG for an invalid
   * entry, and then no entry is done
   */
  run(frame: number, from: number, to: number): number;
  /**
   * Opens a slot for a prompt, and hashes its full blocks. "" stands for no adapter, and for no
   * salt.
   * @returns the handle of the request
   */
  add(tokens: Int32Array, adapter: string, salt: string): number;
  /**
   * Length of the leading run of cached blocks of the slot, at most maxBlocks. Sets
   * `Control.hitFree`.
   */
  match(slot: number, maxBlocks: number): number;
  /**
   * Gives the slot a row with its first hitBlocks cached blocks, or extends the slot's row; all or
   * nothing. The free blocks must suffice for needTokens and reservedBlocks more, and for
   * reserveTokens, and leave spareBlocks; hits in the free queue count as taken. Full blocks up to
   * publishTokens are published. If the state has changed since match(), the hits are looked up
   * again.
   * @returns the row; -1 if the free blocks do not suffice; -2 if they suffice and no row is free
   * @throws ERR_BLOCKSTEP_BAD_ARG if fewer than hitBlocks are cached by now, or if the slot has a
   * row already and hitBlocks is not 0
   */
  admit(
    slot: number,
    hitBlocks: number,
    reserveTokens: number,
    needTokens: number,
    publishTokens: number,
    spareBlocks?: number,
    reservedBlocks?: number,
  ): number;
  /**
   * Makes the GPU decide a step: first entries [from, to) of a frame, as run() does. Then follow
   * admissions, each as match() and admit() do, up to the first admission that does not fit.
   * Pending operations are applied first. At most one decision is under way. Until pollDecision()
   * has returned it, queries see the state before it, add() works, and every other method throws
   * ERR_BLOCKSTEP_DECISION_PENDING.
   * @param request the admissions and their budgets, see `decision.ts`
   * @throws ERR_BLOCKSTEP_NO_ROW, ERR_BLOCKSTEP_BAD_SLOT or ERR_BLOCKSTEP_BAD_ARG for an invalid
   * entry or admission, ERR_BLOCKSTEP_AUTHORITY, ERR_BLOCKSTEP_DECISION_PENDING, and then nothing
   * is asked of the GPU; ERR_BLOCKSTEP_CUDA
   */
  submitDecision(frame: number, from: number, to: number, request: Int32Array): void;
  /**
   * Takes the decision of the GPU, if it has come. The host's state follows it. numBlocks and
   * numNewBlocks of the entries that were done are written, and so is `answer` (see `decision.ts`).
   * Never waits.
   * @returns false if the decision has not come yet
   * @throws ERR_BLOCKSTEP_BAD_ARG if no decision is under way, or if `answer` is too short for all
   * requested admissions. ERR_BLOCKSTEP_AUTHORITY. ERR_BLOCKSTEP_CUDA, or ERR_BLOCKSTEP_MIRROR if
   * the host cannot follow, and then every method throws it
   */
  pollDecision(answer: Int32Array): boolean;
  /** Leading blocks of the slot's row that every row in use shares. */
  commonPrefix(slot: number): number;
  /**
   * Gives a frame its tables: a buffer of fixed length, of exactly `tablesBytes` bytes. The core
   * keeps the buffer, and fills it with padding.
   * @throws ERR_BLOCKSTEP_BAD_ARG if the buffer does not fit, or if the frame has tables already
   */
  bindTables(frame: number, tables: ArrayBuffer, maxTokens: number): void;
  /**
   * Fills the frame's tables with its first numEntries entries, see `StepTables`.
   * @throws ERR_BLOCKSTEP_NO_ROW, ERR_BLOCKSTEP_BAD_SLOT or ERR_BLOCKSTEP_BAD_ARG for an entry that
   * is invalid or lacks blocks, ERR_BLOCKSTEP_DETACHED if the tables are gone; nothing is written
   * then
   */
  gather(frame: number, numEntries: number): void;
  flush(): void;
  pin(ids: Int32Array): void;
  unpin(ids: Int32Array): void;
  evict(ids: Int32Array): void;
  /**
   * Drops every published hash.
   * @returns false, with nothing done, if any block but the null block is in use
   */
  reset(): boolean;
  /** Handle of the slot's present incarnation; 0 if the slot is closed. */
  handle(slot: number): number;
  numTokens(slot: number): number;
  readTokens(slot: number, from: number, out: Int32Array): number;
  /** Empty places of a group's row are 0. @param group default 0 */
  readBlocks(slot: number, from: number, out: Int32Array, group?: number): number;
  /** Writes the ids of the free queue, the next block first. @returns how many ids were written */
  readFreeQueue(out: Int32Array): number;
  /**
   * Writes the ids of the blocks that carry a hash, ascending.
   * @returns how many ids were written
   */
  readPublished(out: Int32Array): number;
  refCount(id: number): number;
  blockGeneration(id: number): number;
  /** The chained 128-bit hash of full block `index` of the slot's tokens. */
  blockHash(slot: number, index: number): bigint;
  /** The hash under which requests can find a block; null: the block cannot be found. */
  publishedHash(id: number): bigint | null;
  /**
   * Checks every invariant of the native state.
   * @throws ERR_BLOCKSTEP_INVARIANT naming the broken invariant
   */
  verify(): void;
  digest(): bigint;
  rollingDigest(): bigint;
  /**
   * Ends a step: sends the mirror the logs since the last submit, in one launch unless the mirror
   * is behind. Without a mirror nothing happens.
   * @param stream a cudaStream_t: the mirror applies the logs behind its present work, and before
   * its later work
   * @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR; every method throws it then
   */
  submit(stream?: bigint | null): void;
  /**
   * Takes the results that have come back from the mirror. Never waits.
   * @returns true if nothing is under way, no digest either
   */
  poll(): boolean;
  /**
   * Makes the mirror compute a digest of its state after all calls so far. It will be compared with
   * the host's digest.
   * @throws ERR_BLOCKSTEP_LIMIT if a digest is under way
   */
  startMirrorDigest(): void;
  /**
   * The last requested digest, once it has come and equals the host's; null before. Without a
   * mirror, the host's digest.
   */
  mirrorDigest(): bigint | null;
  /** Turns the recording of commands, for `drainLog`, on or off. */
  record(on: boolean): void;
  /**
   * The batches of commands since the last call. Each batch is its length in words, then its words.
   */
  drainLog(): Uint32Array;
  /**
   * The events of the prefix cache since the last call, in words; native/host/events/kv_events.h
   * has the format.
   */
  drainKvEvents(): Uint32Array;
  memory(): NativeMemory;
  dispose(): void;
}
