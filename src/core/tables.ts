import { BlockstepError, badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import type { Frame } from './exchange.js';
import type { NativeCore } from './native.js';
import type { TablesShape } from './native-tables.js';

/**
 * What a model runner reads of one plan, in batch order, padded. Each frame has one set, at the same addresses from its
 * first `gather` to the end of the core. Its content is that of the last gather: it stays until the next gather of the
 * same frame, which a scheduler does not plan again before the plan's update. It is to be read only: a gather writes
 * those block ids that are new, and does not repair what somebody else wrote over the others.
 */
export interface StepTables extends TablesShape {
  /** All arrays below lie in this buffer, in the order slotMapping, inputIds, queryStart, seqLens, numComputedTokens, blockTable. */
  readonly buffer: ArrayBuffer;
  /**
   * [maxTokens] the tokens to compute. -1 as padding, and where the request table does not know the token: where a step
   * in flight makes it, and for drafts, which stand in the plan (`draftTokens`).
   */
  readonly inputIds: Int32Array;
  /** [maxTokens] where the KV of each token is written: block * blockSize + offset. Padding -1. */
  readonly slotMapping: BigInt64Array;
  /** [maxEntries + 1] first token of each entry; from the number of entries on, the number of tokens. */
  readonly queryStart: Int32Array;
  /** [maxEntries] computed and scheduled tokens. Padding 0. */
  readonly seqLens: Int32Array;
  /** [maxEntries] tokens whose KV exists before the step. Padding 0. */
  readonly numComputedTokens: Int32Array;
  /** [maxEntries][maxBlocksPerRow] block ids of each entry's row. Padding 0, the null block. */
  readonly blockTable: Int32Array;
  /**
   * Copies tokens of an entry's request, as many as are known and `out` has room for, from the given position on. The
   * tables alone do not tell the tokens of a cached prefix. Only until the next call of the scheduler: the request may
   * be gone then.
   * @returns how many were copied
   * @throws ERR_BLOCKSTEP_BAD_ARG for an entry that was not gathered, ERR_BLOCKSTEP_BAD_SLOT if the request ended
   */
  readTokens(entry: number, from: number, out: Int32Array): number;
}

/** The arrays of a `StepTables`. */
export type TableViews = Pick<
  StepTables,
  'inputIds' | 'slotMapping' | 'queryStart' | 'seqLens' | 'numComputedTokens' | 'blockTable'
>;

/** Bytes of one set of tables: 12 a token, 12 an entry, and 4 a block of each row. */
export function tablesBytes({ maxTokens, maxEntries, maxBlocksPerRow }: TablesShape): number {
  return 12 * maxTokens + 4 * (3 * maxEntries + 1 + maxEntries * maxBlocksPerRow);
}

/** The arrays of a set of tables that lie in this buffer of `tablesBytes` bytes. */
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

/** @throws ERR_BLOCKSTEP_BAD_ARG for what is no entry of a plan that has so many */
export function checkEntry(entry: number, numEntries: number): void {
  if (numEntries === 0) throw badArgument('entry', show(entry), 'an entry of the plan, which has none');
  checkInteger('entry', entry, 0, numEntries - 1);
}

/** The tables of one frame, in memory of their own. */
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

/** The tables of all frames of a core, each made when it is gathered first. */
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

  /** Checks the call before it takes memory. */
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
