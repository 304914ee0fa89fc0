import type { GroupShape, TablesShape } from './native-tables.js';
import type { NativeArena } from './native-transfer.js';

/** One KV cache group of a native reference executor. */
export interface NativeReferenceGroup extends GroupShape {
  /**
   * The tokens that a token needs: all before it, the last `span`, those of its chunk of `span`; or
   * the state after the previous token.
   */
  reads: 'all' | 'window' | 'chunk' | 'state';
  /** 0 if the group needs no count. */
  span: number;
  /**
   * For states: a state is also written at the end of every block, and not only at the end of a
   * step.
   */
  everyEnd: boolean;
  /** For attention beside states: its blocks are zeroed when they are taken. */
  zeroed: boolean;
}

/** The configuration of a native reference executor. Native code checks every field. */
export interface NativeReferenceConfig extends TablesShape {
  /** Blocks of the KV pool, the null block included. */
  numBlocks: number;
  /**
   * Entries per block: its tokens. With groups, the most tokens of a block in any group, where a
   * state counts as one token.
   */
  blockSize: number;
  /**
   * KV cache groups. Absent: there is one list of blocks for each entry, and every token needs all
   * tokens before it.
   */
  groups?: readonly NativeReferenceGroup[] | undefined;
  /** Most draft tokens of an entry, 0 to 64. */
  maxDrafts: number;
  /** Steps in flight, 1 to 3. */
  pipelineDepth: number;
  /** Seed of the model, 0 to 2^32 - 1. */
  seed: number;
  /** The token that ends a text. 2^31 - 1, which is no token id, stands for none. */
  eosToken: number;
  /** How many of 2^32 drafts are wrong, 0 to 2^32 - 1. */
  wrongDrafts: number;
  /** True: after a fault the executor continues as if there was none. */
  reportOnly: boolean;
  /** On the host: the id under which other processes can map the KV memory; see `NativeShared`. */
  shareId?: string | undefined;
}

/**
 * The native part of a reference executor: the KV memory, unpaged copies of the requests, and the
 * model.
 */
export interface NativeReference {
  /**
   * Computes one step. It reads the `StepIo` and a set of tables, and writes the answer into the
   * `StepIo`.
   * @param io the buffer of a `StepIo`
   * @param tables the buffer of a `StepTables`
   * @param known the tokens of all admitted entries, one entry after the other
   * @param zeroed ids of blocks that are zeroed first; none if absent
   * @throws ERR_BLOCKSTEP_BAD_ARG for an invalid plan, and then nothing was changed;
   * ERR_BLOCKSTEP_NO_MEMORY in the middle of a step, and every later call then throws
   * ERR_BLOCKSTEP_INVARIANT
   */
  step(io: ArrayBuffer, tables: ArrayBuffer, known: Int32Array, zeroed?: Int32Array): void;
  /**
   * Declares blocks that lanes have filled as the loaded KV of a request.
   * @throws ERR_BLOCKSTEP_BAD_ARG, and then nothing is changed
   */
  adopt(handle: number, blocks: Int32Array): void;
  /** The KV memory, in blocks of blockSize entries of `KV_ENTRY_BYTES` bytes. */
  arena(): NativeArena;
  /**
   * Bytes of the KV memory, whose pages are allocated only where it is written; and the number of
   * requests with an unpaged copy.
   */
  memory(): { arenaBytes: number; numSequences: number };
  dispose(): void;
}

/** A `NativeReference` over the memory of a GPU. Only `dispose` waits for the GPU. */
export interface NativeDeviceReference {
  /**
   * Makes the GPU compute one step, behind the present work of the executor's stream, and before
   * its later work.
   * @param io the buffer of a `StepIo`; it is copied
   * @param tables addresses, readable by the GPU, of the arrays of a `StepTables`: those of
   * `TABLE_NAMES`, then `slotMapping` and `blockTable` of each KV cache group behind the first. The
   * arrays are read until the step is over
   * @param zeroed ids of blocks that are zeroed first; none if absent
   * @throws ERR_BLOCKSTEP_BAD_ARG, or ERR_BLOCKSTEP_LIMIT if pipelineDepth steps were submitted and
   * not drained, and then nothing was changed; ERR_BLOCKSTEP_CUDA, and then every later call throws
   * it too
   */
  submit(io: ArrayBuffer, tables: BigUint64Array, known: Int32Array, zeroed?: Int32Array): void;
  /**
   * Drains the oldest step that was submitted and not drained, if it is over: writes its answer into
   * `io`.
   * @returns false if the step is not over yet
   * @throws the error with which the step failed, and the step counts as drained; ERR_BLOCKSTEP_CUDA,
   * and then every later call throws it
   */
  drain(io: ArrayBuffer): boolean;
  /** See `NativeReference.adopt`. */
  adopt(handle: number, blocks: Int32Array): void;
  /** The stream in which steps are computed, a cudaStream_t. */
  stream(): bigint;
  arena(): NativeArena;
  /**
   * Like `NativeReference.memory`; and the bytes of pinned memory of the host, all of which are
   * allocated.
   */
  memory(): { arenaBytes: number; numSequences: number; pinnedBytes: number };
  dispose(): void;
}

/** The kinds of findings, in the order of the native enum. */
export const MISMATCHES = [
  'unknown-request',
  'query-start',
  'computed-tokens',
  'sequence-length',
  'scheduled-tokens',
  'input-token',
  'missing-draft',
  'slot',
  'block',
  'moved-block',
  'foreign-write',
  'unwritten-read',
  'stale-read',
  'foreign-read',
  'wrong-read',
  'unexpected-load',
  'null-read',
  'unzeroed-read',
] as const;
/** The faults that a reference executor can find. */
export type MismatchKind = (typeof MISMATCHES)[number];

/** Bytes of one entry of the KV memory. An entry stands for the KV of one token. */
export const KV_ENTRY_BYTES = 32;

/** Most faults of a step that are kept. Later faults of the step are only counted. */
export const MAX_FINDINGS = 64;
/**
 * Numbers of each finding: kind, entry, handle, position, block, expected, found, foundPosition,
 * owner, two generations, group, place.
 */
export const FINDING_NUMBERS = 13;
const CONTROL_WORDS = 8;

/** Indexes into `StepIo.control`. TypeScript writes numEntries, native code the others. */
export const StepControl = { numEntries: 0, numTokens: 1, numFindings: 2, numErrors: 3 } as const;

/**
 * The buffer that carries one step into native code and its answer back, and its views.
 * native/reference/step/step_io.h describes the same layout. Arrays without a comment have one word
 * for each entry of the plan.
 */
export interface StepIo {
  readonly buffer: ArrayBuffer;
  readonly handles: Float64Array;
  readonly findings: Float64Array;
  readonly control: Int32Array;
  readonly kinds: Int32Array;
  readonly numScheduledTokens: Int32Array;
  /** For the first KV cache group, then for the second, and so on: maxEntries words each. */
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
  readonly numDraftTokens: Int32Array;
  /** Not 0: the entry computes the last known token of its request, so it samples. */
  readonly samples: Int32Array;
  /**
   * True first position of the entry, as in `InputBatch`, plus one. 0: the position is not given.
   */
  readonly first: Int32Array;
  /**
   * Tokens of each entry that come with the step: all for an admitted entry, 0 for other entries.
   */
  readonly numKnown: Int32Array;
  readonly numPrompt: Int32Array;
  /** Two words per entry: a key of the request's adapter, and a key of its cache salt. */
  readonly roots: Int32Array;
  /**
   * maxDrafts draft tokens per entry. -1: the draft that the executor made itself; -2: a draft that
   * must not be accepted.
   */
  readonly draftTokens: Int32Array;
  readonly counts: Int32Array;
  readonly tokens: Int32Array;
  readonly nextCounts: Int32Array;
  readonly nextDrafts: Int32Array;
  readonly errors: Uint8Array;
}

/** Allocates the buffer of one step and cuts it into its views. */
export function makeStepIo({
  maxEntries,
  maxDrafts,
  groups,
}: Pick<NativeReferenceConfig, 'maxEntries' | 'maxDrafts' | 'groups'>): StepIo {
  const numGroups = groups?.length ?? 1;
  const numbers = maxEntries + MAX_FINDINGS * FINDING_NUMBERS;
  const words = CONTROL_WORDS + maxEntries * (12 + 2 * numGroups + 3 * maxDrafts);
  const buffer = new ArrayBuffer(8 * numbers + 4 * words + maxEntries);
  let at = 8 * numbers;
  const cut = (length: number): Int32Array => {
    const view = new Int32Array(buffer, at, length);
    at += 4 * length;
    return view;
  };
  return {
    buffer,
    handles: new Float64Array(buffer, 0, maxEntries),
    findings: new Float64Array(buffer, 8 * maxEntries, MAX_FINDINGS * FINDING_NUMBERS),
    control: cut(CONTROL_WORDS),
    kinds: cut(maxEntries),
    numScheduledTokens: cut(maxEntries),
    numBlocks: cut(maxEntries * numGroups),
    numNewBlocks: cut(maxEntries * numGroups),
    numDraftTokens: cut(maxEntries),
    samples: cut(maxEntries),
    first: cut(maxEntries),
    numKnown: cut(maxEntries),
    numPrompt: cut(maxEntries),
    roots: cut(2 * maxEntries),
    draftTokens: cut(maxEntries * maxDrafts),
    counts: cut(maxEntries),
    tokens: cut(maxEntries * (1 + maxDrafts)),
    nextCounts: cut(maxEntries),
    nextDrafts: cut(maxEntries * maxDrafts),
    errors: new Uint8Array(buffer, at, maxEntries),
  };
}
