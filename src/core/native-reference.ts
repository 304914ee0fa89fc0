import type { TablesShape } from './native-tables.js';
import type { NativeArena } from './native-transfer.js';

/** What a native reference executor is made for. Native code checks every field. */
export interface NativeReferenceConfig extends TablesShape {
  /** Blocks of the pool, the null block included. */
  numBlocks: number;
  blockSize: number;
  /** Draft tokens that an entry can have; 0 to 64. */
  maxDrafts: number;
  /** Steps in flight, 1 to 3. */
  pipelineDepth: number;
  /** 0 to 2^32 - 1. */
  seed: number;
  /** The token that ends a text; 2^31 - 1, which is no token id, for none. */
  eosToken: number;
  /** Of 2^32 drafts so many are wrong; 0 to 2^32 - 1. */
  wrongDrafts: number;
  /** Go on after a finding as if nothing had been found. */
  reportOnly: boolean;
}

/** The native part of a reference executor: KV memory, the unpaged copies, the model. */
export interface NativeReference {
  /**
   * Computes one step of what a `StepIo` says and a set of tables, and writes the answer to the former.
   * @param known the tokens of all admitted entries, one entry after the other
   * @throws ERR_BLOCKSTEP_BAD_ARG for a plan that makes no sense, and nothing was changed; ERR_BLOCKSTEP_NO_MEMORY in the
   * middle of a step, and from then on ERR_BLOCKSTEP_INVARIANT
   */
  step(io: ArrayBuffer, tables: ArrayBuffer, known: Int32Array): void;
  /**
   * These blocks were taken by this request and lanes have filled them: what they hold is what it loaded.
   * @throws ERR_BLOCKSTEP_BAD_ARG; nothing is changed then
   */
  adopt(handle: number, blocks: Int32Array): void;
  /** The KV memory, in blocks of blockSize entries of 32 bytes. */
  arena(): NativeArena;
  /** Bytes of the KV memory, which takes memory where it is written; and requests that it has a copy of. */
  memory(): { arenaBytes: number; numSequences: number };
  dispose(): void;
}

/** The same over memory of a GPU. Nothing but `dispose` waits for it. */
export interface NativeDeviceReference {
  /**
   * Has a step computed: behind what is queued in the stream now, and before what will be.
   * @param io copied
   * @param tables addresses that the GPU can read, of the arrays in the order of `StepTables.buffer`; read until the step is
   * over
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_LIMIT if pipelineDepth steps were not taken, and nothing was changed;
   * ERR_BLOCKSTEP_CUDA, and from then on always
   */
  submit(io: ArrayBuffer, tables: BigUint64Array, known: Int32Array): void;
  /**
   * Whether the oldest step that was not taken is over; `io` has its answer then, and it counts as taken.
   * @throws what it failed with, and it counts as taken; ERR_BLOCKSTEP_CUDA, and from then on always
   */
  take(io: ArrayBuffer): boolean;
  adopt(handle: number, blocks: Int32Array): void;
  /** The stream in which steps are computed, a cudaStream_t. */
  stream(): bigint;
  arena(): NativeArena;
  /** As of `NativeReference`; and bytes of pinned memory of the host, all of them taken. */
  memory(): { arenaBytes: number; numSequences: number; pinnedBytes: number };
  dispose(): void;
}

/** What can be found wrong, in the order of the native enum. */
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
] as const;
export type MismatchKind = (typeof MISMATCHES)[number];

/** Bytes of an entry of the KV memory, which stands for the KV of one token. */
export const KV_ENTRY_BYTES = 32;

/** Findings of one step that are kept; those after them are counted only. */
export const MAX_FINDINGS = 64;
/** Numbers of each finding: kind, entry, handle, position, block, expected, found, foundPosition, owner, two generations. */
export const FINDING_NUMBERS = 11;
const CONTROL_WORDS = 8;

/** Indexes into the control words. TypeScript writes the first. */
export const StepControl = { numEntries: 0, numTokens: 1, numFindings: 2, numErrors: 3 } as const;

/** The buffer through which one step goes into native code and comes back, and its views; as native/reference/step_io.h. */
export interface StepIo {
  readonly buffer: ArrayBuffer;
  readonly handles: Float64Array;
  readonly findings: Float64Array;
  readonly control: Int32Array;
  readonly kinds: Int32Array;
  readonly numScheduledTokens: Int32Array;
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
  readonly numDraftTokens: Int32Array;
  /** Not 0: the entry computes its last known token, so it samples. */
  readonly samples: Int32Array;
  /** One more than the position at which the entry really begins, as `InputBatch` has it; 0: it is not said. */
  readonly first: Int32Array;
  /** Tokens that come with the step: of admitted entries all, of others 0. */
  readonly numKnown: Int32Array;
  readonly numPrompt: Int32Array;
  /** Two words an entry: a key of adapter and salt. */
  readonly roots: Int32Array;
  /** -1: the one that the executor made itself; -2: one that is not to be accepted. */
  readonly draftTokens: Int32Array;
  readonly counts: Int32Array;
  readonly tokens: Int32Array;
  readonly nextCounts: Int32Array;
  readonly nextDrafts: Int32Array;
  readonly errors: Uint8Array;
}

/** Allocates the buffer of a step and cuts it into its views. */
export function makeStepIo({ maxEntries, maxDrafts }: { maxEntries: number; maxDrafts: number }): StepIo {
  const numbers = maxEntries + MAX_FINDINGS * FINDING_NUMBERS;
  const words = CONTROL_WORDS + maxEntries * (14 + 3 * maxDrafts);
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
    numBlocks: cut(maxEntries),
    numNewBlocks: cut(maxEntries),
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
