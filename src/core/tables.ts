// The tables of a plan that a model runner reads, in memory of the host.
import { BlockstepError, badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import type { Frame } from './exchange.js';
import type { NativeConfig, NativeCore } from './native/native.js';
import type { GroupShape, TablesShape } from './native/native-tables.js';

/** The tables of one KV cache group: layers of a model that share one table of blocks. */
export interface GroupTables extends GroupShape {
  /**
   * [maxTokens] The KV slot for the KV of each token: block * blockSize + offset, with the group's
   * `blockSize`. Padding -1. In a group of states (Mamba `align`), -1 also stands for a token whose
   * place is empty.
   */
  readonly slotMapping: BigInt64Array;
  /**
   * [maxEntries][maxBlocksPerRow] Block ids in each entry's row. Padding 0. An empty place is 0
   * too, for instance in front of a sliding window.
   */
  readonly blockTable: Int32Array;
}

/**
 * The tables that a model runner reads of one plan, in batch order, padded.
 *
 * Each frame has one set of tables. The set stays at the same addresses from the frame's first
 * `gather` to the end of the core. Its content is that of the frame's last gather, and stays until
 * the next. A scheduler does not plan into a frame again before the update of the plan in it. The
 * tables must only be read: a gather writes only the new block ids, and does not repair overwritten
 * ones.
 */
export interface StepTables extends TablesShape {
  /**
   * The buffer of all arrays below, in the order slotMapping (of each group), inputIds, queryStart,
   * seqLens, numComputedTokens, blockTable (of each group).
   */
  readonly buffer: ArrayBuffer;
  /**
   * [maxTokens] The tokens to compute. -1 is padding, or a token that the request table does not
   * know: a token of a step in flight, or a draft. The plan has the drafts (`Plan.draftTokens`).
   */
  readonly inputIds: Int32Array;
  /** [maxTokens] The KV slot for the KV of each token: block * blockSize + offset. Padding -1. */
  readonly slotMapping: BigInt64Array;
  /**
   * [maxEntries + 1] Index of the first token of each entry. From index numEntries on: the number
   * of tokens.
   */
  readonly queryStart: Int32Array;
  /** [maxEntries] Computed and scheduled tokens of each entry's request. Padding 0. */
  readonly seqLens: Int32Array;
  /** [maxEntries] Tokens of each entry's request whose KV exists before the step. Padding 0. */
  readonly numComputedTokens: Int32Array;
  /** [maxEntries][maxBlocksPerRow] Block ids in each entry's row. Padding 0, the null block. */
  readonly blockTable: Int32Array;
  /**
   * `slotMapping` and `blockTable` of each KV cache group. The arrays above are those of the first
   * group. Without `kvGroups` there is one group. All other arrays are the same for all groups.
   */
  readonly groups: readonly GroupTables[];
  /**
   * Copies known tokens of an entry's request into `out`, from position `from` on, as many as `out`
   * has room for. This also reads a cached prefix, whose tokens the tables do not hold. Call it
   * before the next call of the scheduler, after which the request may be gone.
   * @returns how many tokens were copied
   * @throws ERR_BLOCKSTEP_BAD_ARG for an entry that was not gathered, ERR_BLOCKSTEP_BAD_SLOT if the
   * request has ended
   */
  readTokens(entry: number, from: number, out: Int32Array): number;
}

/**
 * The shape of the tables of each KV cache group. Native code computes the same
 * (`HostConfig::most_places`).
 */
export function groupShapes({
  groups,
  blockSize,
  maxBlocksPerRow,
  maxModelLen,
}: NativeConfig): readonly GroupShape[] {
  if (groups === undefined) return Object.freeze([Object.freeze({ blockSize, maxBlocksPerRow })]);
  const shapes = groups.map((group) =>
    Object.freeze({
      blockSize: group.blockSize,
      maxBlocksPerRow: Math.ceil(maxModelLen / group.blockSize) + group.spareBlocks,
    }),
  );
  return Object.freeze(shapes);
}

/** The arrays of `StepTables`. */
export type TableViews = Pick<
  StepTables,
  'inputIds' | 'slotMapping' | 'queryStart' | 'seqLens' | 'numComputedTokens' | 'blockTable'
>;

/** Most blocks in a row of a group's block table. */
export type Widths = Pick<GroupShape, 'maxBlocksPerRow'>;

/**
 * Bytes of one set of tables. A token takes 4, and 8 for each group. An entry takes 12, all entries
 * 4 more. A block of a row takes 4.
 */
export function tablesBytes(shape: TablesShape, groups: readonly Widths[] = [shape]): number {
  const { maxTokens, maxEntries } = shape;
  const places = groups.reduce((sum, { maxBlocksPerRow }) => sum + maxBlocksPerRow, 0);
  return (8 * groups.length + 4) * maxTokens + 4 * (3 * maxEntries + 1 + maxEntries * places);
}

/**
 * Cuts a buffer of `tablesBytes` bytes into the arrays of a set of tables; with several groups, of
 * the first group.
 */
export function tableViews(buffer: ArrayBuffer, shape: TablesShape, numGroups = 1): TableViews {
  const { maxTokens, maxEntries, maxBlocksPerRow } = shape;
  const slotMapping = new BigInt64Array(buffer, 0, maxTokens);
  let at = numGroups * slotMapping.byteLength;
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

/** The tables of each group in a buffer; `first` is the first group's. */
function groupTables(first: TableViews, maxEntries: number, groups: readonly GroupShape[]): GroupTables[] {
  const { buffer, length: maxTokens } = first.slotMapping;
  let at = first.blockTable.byteOffset;
  return groups.map(({ blockSize, maxBlocksPerRow }, g) => {
    const from = at;
    at += 4 * maxEntries * maxBlocksPerRow;
    return Object.freeze({
      slotMapping: g === 0 ? first.slotMapping : new BigInt64Array(buffer, 8 * g * maxTokens, maxTokens),
      blockTable: g === 0 ? first.blockTable : new Int32Array(buffer, from, maxEntries * maxBlocksPerRow),
      blockSize,
      maxBlocksPerRow,
    });
  });
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
  readonly groups: readonly GroupTables[];
  numEntries = 0;
  readonly #native: NativeCore;
  readonly #slots: Int32Array;

  /** @throws ERR_BLOCKSTEP_NO_MEMORY */
  constructor(native: NativeCore, frame: Frame, shape: TablesShape, groups: readonly GroupShape[]) {
    const { views, groupViews } = allocate(shape, groups);
    this.buffer = views.slotMapping.buffer as ArrayBuffer;
    this.maxTokens = shape.maxTokens;
    this.maxEntries = shape.maxEntries;
    this.maxBlocksPerRow = shape.maxBlocksPerRow;
    this.inputIds = views.inputIds;
    this.slotMapping = views.slotMapping;
    this.queryStart = views.queryStart;
    this.seqLens = views.seqLens;
    this.numComputedTokens = views.numComputedTokens;
    this.blockTable = views.blockTable;
    this.groups = Object.freeze(groupViews);
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
  readonly #groups: readonly GroupShape[];
  readonly #tables: (FrameTables | undefined)[] = [];

  constructor(
    native: NativeCore,
    frames: readonly Frame[],
    limits: Omit<TablesShape, 'maxBlocksPerRow'>,
    groups: readonly GroupShape[],
  ) {
    this.#native = native;
    this.#frames = frames;
    this.#shape = { ...limits, maxBlocksPerRow: groups[0].maxBlocksPerRow };
    this.#groups = groups;
  }

  /** See `Core.gather`. */
  gather(frame: number, numEntries: number): StepTables {
    const tables = this.#tables[frame] ?? this.#make(frame, numEntries);
    this.#native.gather(frame, numEntries);
    tables.numEntries = numEntries;
    return tables;
  }

  /**
   * Makes the tables of a frame. The arguments are checked first, so that a refused call takes no
   * memory.
   */
  #make(frame: number, numEntries: number): FrameTables {
    const index = checkInteger('frame', frame, 0, this.#frames.length - 1);
    checkInteger('numEntries', numEntries, 0, this.#shape.maxEntries);
    const tables = new FrameTables(this.#native, this.#frames[index], this.#shape, this.#groups);
    this.#tables[index] = tables;
    return tables;
  }
}

/**
 * Memory for a set of tables, and its arrays. A machine that promises more memory than it has may
 * give a buffer that is longer than any array can be.
 * @throws ERR_BLOCKSTEP_NO_MEMORY
 */
function allocate(
  shape: TablesShape,
  groups: readonly GroupShape[],
): { views: TableViews; groupViews: GroupTables[] } {
  const bytes = tablesBytes(shape, groups);
  try {
    const views = tableViews(new ArrayBuffer(bytes), shape, groups.length);
    return { views, groupViews: groupTables(views, shape.maxEntries, groups) };
  } catch (cause) {
    const message = `could not allocate ${bytes} bytes for the tables of a step`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message, { cause });
  }
}
