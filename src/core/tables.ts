import { BlockstepError, badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import type { Frame } from './exchange.js';
import type { NativeCore } from './native/native.js';
import type { TablesShape } from './native/native-tables.js';

/**
 * The tables that a model runner reads of one plan, in batch order, padded.
 *
 * Each frame has one set of tables. The set stays at the same addresses from the frame's first `gather` to the end of
 * the core. Its content is that of the frame's last gather. It stays until the frame is gathered again, and a
 * scheduler does not plan into a frame again before the update of the plan in it. The tables are to be read only: a
 * gather writes only the block ids that are new, and does not repair others that somebody wrote over.
 */
export interface StepTables extends TablesShape {
  /**
   * The buffer of all arrays below, in the order slotMapping, inputIds, queryStart, seqLens, numComputedTokens,
   * blockTable.
   */
  readonly buffer: ArrayBuffer;
  /**
   * [maxTokens] The tokens to compute. -1 is padding, and stands for a token that the request table does not know:
   * one that a step in flight makes, or a draft. Drafts stand in the plan (`Plan.draftTokens`).
   */
  readonly inputIds: Int32Array;
  /** [maxTokens] The KV slot into which the KV of each token is written: block * blockSize + offset. Padding -1. */
  readonly slotMapping: BigInt64Array;
  /** [maxEntries + 1] Index of the first token of each entry. From index numEntries on: the number of tokens. */
  readonly queryStart: Int32Array;
  /** [maxEntries] Computed and scheduled tokens of each entry's request. Padding 0. */
  readonly seqLens: Int32Array;
  /** [maxEntries] Tokens of each entry's request whose KV exists before the step. Padding 0. */
  readonly numComputedTokens: Int32Array;
  /** [maxEntries][maxBlocksPerRow] Block ids in each entry's row. Padding 0, the null block. */
  readonly blockTable: Int32Array;
  /**
   * Copies known tokens of an entry's request into `out`, from position `from` on, as many as `out` has room for. A
   * cached prefix, whose tokens the tables do not hold, can be read so. To be called before the next call of the
   * scheduler: the request may be gone then.
   * @returns how many tokens were copied
   * @throws ERR_BLOCKSTEP_BAD_ARG for an entry that was not gathered, ERR_BLOCKSTEP_BAD_SLOT if the request has ended
   */
  readTokens(entry: number, from: number, out: Int32Array): number;
}

/** The arrays of `StepTables`. */
export type TableViews = Pick<
  StepTables,
  'inputIds' | 'slotMapping' | 'queryStart' | 'seqLens' | 'numComputedTokens' | 'blockTable'
>;

/** Bytes of one set of tables: 12 per token, 12 per entry and 4 more, and 4 per block of each row. */
export function tablesBytes({ maxTokens, maxEntries, maxBlocksPerRow }: TablesShape): number {
  return 12 * maxTokens + 4 * (3 * maxEntries + 1 + maxEntries * maxBlocksPerRow);
}

/** Cuts a buffer of `tablesBytes` bytes into the arrays of a set of tables. */
export function tableViews(buffer: ArrayBuffer, shape: TablesShape): TableViews {
  const { maxTokens, maxEntries, maxBlocksPerRow } = shape;
  const slotMapping = new BigInt64Array(buffer, 0, maxTokens);
  let at = slotMapping.byteLength;
  const cut = (words: number): Int32Array => {
    const view = new Int32Array(buffer, at, words);
    at += view.byteLength;
    return view;
  };
  return {
    slotMapping,
    inputIds: cut(maxTokens),
    queryStart: cut(maxEntries + 1),
    seqLens: cut(maxEntries),
    numComputedTokens: cut(maxEntries),
    blockTable: cut(maxEntries * maxBlocksPerRow),
  };
}

/** Checks that `entry` is an index below `numEntries`. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkEntry(entry: number, numEntries: number): void {
  if (numEntries === 0) throw badArgument('entry', show(entry), 'an entry of the plan, which has none');
  checkInteger('entry', entry, 0, numEntries - 1);
}

/** The tables of one frame, in a buffer of their own. */
class FrameTables implements StepTables {
  readonly buffer: ArrayBuffer;
  readonly maxTokens: number;
  readonly maxEntries: number;
  readonly maxBlocksPerRow: number;
  readonly inputIds: Int32Array;
  readonly slotMapping: BigInt64Array;
  readonly queryStart: Int32Array;
  readonly seqLens: Int32Array;
  readonly numComputedTokens: Int32Array;
  readonly blockTable: Int32Array;
  numEntries = 0;
  readonly #native: NativeCore;
  readonly #slots: Int32Array;

  /** @throws ERR_BLOCKSTEP_NO_MEMORY */
  constructor(native: NativeCore, frame: Frame, shape: TablesShape) {
    this.buffer = allocate(tablesBytes(shape));
    this.maxTokens = shape.maxTokens;
    this.maxEntries = shape.maxEntries;
    this.maxBlocksPerRow = shape.maxBlocksPerRow;
    const views = tableViews(this.buffer, shape);
    this.inputIds = views.inputIds;
    this.slotMapping = views.slotMapping;
    this.queryStart = views.queryStart;
    this.seqLens = views.seqLens;
    this.numComputedTokens = views.numComputedTokens;
    this.blockTable = views.blockTable;
    this.#native = native;
    this.#slots = frame.slots;
    native.bindTables(frame.index, this.buffer, shape.maxTokens);
  }

  [INSPECT](depth: number, options: object): string {
    const { numEntries, maxTokens, maxEntries, maxBlocksPerRow } = this;
    return showFacts('StepTables', depth, options, { numEntries, maxTokens, maxEntries, maxBlocksPerRow });
  }

  readTokens(entry: number, from: number, out: Int32Array): number {
    checkEntry(entry, this.numEntries);
    return this.#native.readTokens(this.#slots[entry], from, out);
  }
}

/** The tables of all frames of a core. The tables of a frame are made at its first gather. */
export class Gatherer {
  readonly #native: NativeCore;
  readonly #frames: readonly Frame[];
  readonly #shape: TablesShape;
  readonly #tables: (FrameTables | undefined)[] = [];

  constructor(native: NativeCore, frames: readonly Frame[], shape: TablesShape) {
    this.#native = native;
    this.#frames = frames;
    this.#shape = shape;
  }

  /** See `Core.gather`. */
  gather(frame: number, numEntries: number): StepTables {
    const tables = this.#tables[frame] ?? this.#make(frame, numEntries);
    this.#native.gather(frame, numEntries);
    tables.numEntries = numEntries;
    return tables;
  }

  /** Makes the tables of a frame. The arguments are checked first, so that a refused call takes no memory. */
  #make(frame: number, numEntries: number): FrameTables {
    const index = checkInteger('frame', frame, 0, this.#frames.length - 1);
    checkInteger('numEntries', numEntries, 0, this.#shape.maxEntries);
    const tables = new FrameTables(this.#native, this.#frames[index], this.#shape);
    this.#tables[index] = tables;
    return tables;
  }
}

function allocate(bytes: number): ArrayBuffer {
  try {
    return new ArrayBuffer(bytes);
  } catch (cause) {
    const message = `could not allocate ${bytes} bytes for the tables of a step`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message, { cause });
  }
}
