import { badArgument, checkInteger, show } from '../base/errors.js';
import type { Frame } from './exchange.js';
import type { NativeCore } from './native/native.js';
import type { GroupShape, NativeDeviceArray, TablesShape } from './native/native-tables.js';
import { checkEntry, type StepTables, type TableViews } from './tables.js';

/**
 * An array in the memory of a GPU. It is dense, row after row, and starts at a multiple of 256
 * bytes.
 */
export interface DeviceArray {
  /** Address of the array on the device. */
  readonly pointer: bigint;
  /** Elements of each dimension, the outer one first; one or two dimensions. */
  readonly shape: readonly number[];
  /** Type of the elements: `int64` for `slotMapping`, `int32` for every other array. */
  readonly dtype: 'int32' | 'int64';
  /** The device that holds the array, `cuda:N`, as in the options of a scheduler. */
  readonly device: string;
}

/** The names of the arrays in a set of tables, in the order in which native code numbers them. */
export const TABLE_NAMES = [
  'slotMapping',
  'inputIds',
  'queryStart',
  'seqLens',
  'numComputedTokens',
  'blockTable',
] as const satisfies readonly (keyof TableViews)[];

/** The name of one array in a set of tables. */
export type TableName = (typeof TABLE_NAMES)[number];

/**
 * The tables of one KV cache group on a GPU. They hold the same content as `GroupTables` of the
 * same plan.
 */
export interface DeviceGroupTables extends GroupShape {
  readonly slotMapping: DeviceArray;
  readonly blockTable: DeviceArray;
}

/**
 * The tables of a step in the memory of a GPU. A core has one set of them. The set stays at the
 * same addresses for the life of the core, so that a CUDA graph may capture them. The tables hold
 * the same content as `StepTables` of the same plan. Padding is -1 in `slotMapping` and `inputIds`,
 * the number of tokens in `queryStart`, and 0 elsewhere. The tables must only be read.
 *
 * Order: a gather runs in the core's stream (option `stream`), or in the stream that was passed
 * with the call. It runs behind the earlier work of that stream, and in front of its later work. A
 * reader of a plan's tables must therefore be queued there behind the gather of this plan, and
 * before the next gather.
 */
export interface DeviceTableSet extends TablesShape, Readonly<Record<TableName, DeviceArray>> {
  /** `slotMapping` and `blockTable` of each KV cache group, as `StepTables.groups`. */
  readonly groups: readonly DeviceGroupTables[];
  /**
   * Address of a `struct blockstep_tables` in memory of the host, for other addons;
   * native/include/blockstep_tables.h describes it. The struct stays there until the core is
   * disposed.
   */
  readonly descriptor: bigint;
  /**
   * Gathers that had to wait for the GPU, since the core was made. The count stays 0 while each
   * plan is updated before more than `pipelineDepth` plans are in flight. Exceptions are plans
   * without tokens (aborts, preemptions) and very long logs.
   */
  readonly waits: number;
  /**
   * A copy of one array, read back from the GPU, for debugging and tests. It waits for all queued
   * work of the core's stream.
   * @param group of `slotMapping` and `blockTable`: index in `groups`. Default 0
   * @throws ERR_BLOCKSTEP_BAD_ARG if `name` is not in `TABLE_NAMES`, or for an unknown group;
   * ERR_BLOCKSTEP_CUDA
   */
  read(name: 'slotMapping', group?: number): BigInt64Array;
  /** As `read` of `slotMapping`, for an array of int32; `blockTable` comes row after row. */
  read(name: Exclude<TableName, 'slotMapping'>, group?: number): Int32Array;
  /** As `read` of `slotMapping`, for a name that is known only at run time. */
  read(name: TableName, group?: number): BigInt64Array | Int32Array;
}

/** The tables of one plan on a GPU, as `gatherOnDevice` filled them. */
export interface DeviceTables extends DeviceTableSet, Pick<StepTables, 'readTokens'> {}

/** The tables of a core on its GPU. They are made at the first call that needs them. */
export class DeviceGatherer {
  readonly #native: NativeCore;
  readonly #frames: readonly Frame[];
  readonly #shape: TablesShape;
  readonly #groups: readonly GroupShape[];
  #set: DeviceTableSet | null = null;
  readonly #plans: PlanTables[] = [];

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

  /** See `Core.deviceTables`. */
  get set(): DeviceTableSet {
    this.#set ??= makeSet(this.#native, this.#shape, this.#groups);
    return this.#set;
  }

  /** See `Core.gatherOnDevice`. */
  gather(frame: number, numEntries: number, stream: bigint | null): DeviceTables {
    const plan = this.#plans[frame] ?? this.#make(frame, numEntries);
    this.#native.gatherOnDevice(frame, numEntries, stream);
    plan.numEntries = numEntries;
    return plan.tables;
  }

  /**
   * Makes the tables of a frame. The arguments are checked first, so that a refused call takes no
   * memory.
   */
  #make(frame: number, numEntries: number): PlanTables {
    const index = checkInteger('frame', frame, 0, this.#frames.length - 1);
    checkInteger('numEntries', numEntries, 0, this.#shape.maxEntries);
    const plan = new PlanTables(this.#native, this.#frames[index], this.set);
    this.#plans[index] = plan;
    return plan;
  }
}

/**
 * The tables of one frame: the one set that all frames share, with `readTokens` for the requests in
 * this frame.
 */
class PlanTables {
  numEntries = 0;
  readonly tables: DeviceTables;

  constructor(native: NativeCore, { slots }: Frame, set: DeviceTableSet) {
    const readTokens = (entry: number, from: number, out: Int32Array): number => {
      checkEntry(entry, this.numEntries);
      return native.readTokens(slots[entry], from, out);
    };
    this.tables = Object.freeze(Object.create(set, { readTokens: { value: readTokens, enumerable: true } }));
  }
}

/** The index of a group's array in native code. */
function indexOf(name: TableName, group: number): number {
  if (group === 0) return TABLE_NAMES.indexOf(name);
  return TABLE_NAMES.length + 2 * (group - 1) + (name === 'blockTable' ? 1 : 0);
}

function makeSet(native: NativeCore, shape: TablesShape, shapes: readonly GroupShape[]): DeviceTableSet {
  const made = native.makeDeviceTables(shape.maxTokens);
  const arrays = made.arrays.map(({ pointer, shape: dimensions, dtype }: NativeDeviceArray) =>
    Object.freeze({ pointer, shape: Object.freeze(dimensions), dtype, device: `cuda:${made.device}` }),
  );
  const named = Object.fromEntries(TABLE_NAMES.map((name, i) => [name, arrays[i]]));
  const groups = shapes.map((group, g) =>
    Object.freeze({
      slotMapping: arrays[indexOf('slotMapping', g)],
      blockTable: arrays[indexOf('blockTable', g)],
      ...group,
    }),
  );
  const read = (name: TableName, group = 0): BigInt64Array | Int32Array => {
    if (!TABLE_NAMES.includes(name))
      throw badArgument('name', show(name), `one of ${TABLE_NAMES.join(', ')}`);
    const isByGroup = name === 'slotMapping' || name === 'blockTable';
    const index = indexOf(name, checkInteger('group', group, 0, isByGroup ? groups.length - 1 : 0));
    const elements = made.arrays[index].shape.reduce((product, dimension) => product * dimension, 1);
    const out = made.arrays[index].dtype === 'int64' ? new BigInt64Array(elements) : new Int32Array(elements);
    native.readDeviceTable(index, out.buffer);
    return out;
  };
  return Object.freeze({
    ...(named as Record<TableName, DeviceArray>),
    ...shape,
    groups: Object.freeze(groups),
    descriptor: made.descriptor,
    get waits() {
      return native.gatherWaits();
    },
    read: read as DeviceTableSet['read'],
  });
}
