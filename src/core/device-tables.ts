import { badArgument, checkInteger, show } from '../base/errors.js';
import type { Frame } from './exchange.js';
import type { NativeCore } from './native/native.js';
import type { TablesShape } from './native/native-tables.js';
import { checkEntry, type StepTables, type TableViews } from './tables.js';

/** An array in the memory of a GPU. It is dense, row after row, and starts at a multiple of 256 bytes. */
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
 * The tables of a step in the memory of a GPU. A core has one set of them. The set stays at the same addresses for
 * the life of the core, so that a CUDA graph may capture them. The tables hold what `StepTables` of the same plan
 * hold, padding included: -1 in `slotMapping` and `inputIds`, the number of tokens in `queryStart`, 0 elsewhere. They
 * are to be read only.
 *
 * Order: a gather runs in the core's stream (option `stream`), or in the stream that was passed with the call. It
 * runs behind everything that was queued in that stream before, and in front of everything that is queued there
 * later. So whatever reads the tables of a plan must be queued in that stream between the gather of this plan and the
 * gather of the next plan.
 */
export interface DeviceTableSet extends TablesShape, Readonly<Record<TableName, DeviceArray>> {
  /**
   * Address of a `struct blockstep_tables` in memory of the host, for other addons; native/include/blockstep_tables.h
   * describes it. The struct stays there until the core is disposed.
   */
  readonly descriptor: bigint;
  /**
   * Gathers that had to wait for the GPU, since the core was made. The count stays 0 while each plan is updated
   * before more than `pipelineDepth` plans are in flight, unless plans without tokens (aborts, preemptions) or very
   * long logs come in between.
   */
  readonly waits: number;
  /**
   * A copy of one array, read back from the GPU, for debugging and tests. It waits for everything that was queued in
   * the core's stream.
   * @throws ERR_BLOCKSTEP_BAD_ARG if `name` is not in `TABLE_NAMES`, ERR_BLOCKSTEP_CUDA
   */
  read(name: 'slotMapping'): BigInt64Array;
  /** As `read` of `slotMapping`, for an array of int32; `blockTable` comes row after row. */
  read(name: Exclude<TableName, 'slotMapping'>): Int32Array;
  /** As `read` of `slotMapping`, for a name that is known only at run time. */
  read(name: TableName): BigInt64Array | Int32Array;
}

/** The tables of one plan on a GPU, as `gatherOnDevice` filled them. */
export interface DeviceTables extends DeviceTableSet, Pick<StepTables, 'readTokens'> {}

/** The tables of a core on its GPU. They are made at the first call that needs them. */
export class DeviceGatherer {
  readonly #native: NativeCore;
  readonly #frames: readonly Frame[];
  readonly #shape: TablesShape;
  #set: DeviceTableSet | null = null;
  readonly #plans: PlanTables[] = [];

  constructor(native: NativeCore, frames: readonly Frame[], shape: TablesShape) {
    this.#native = native;
    this.#frames = frames;
    this.#shape = shape;
  }

  /** See `Core.deviceTables`. */
  get set(): DeviceTableSet {
    this.#set ??= makeSet(this.#native, this.#shape);
    return this.#set;
  }

  /** See `Core.gatherOnDevice`. */
  gather(frame: number, numEntries: number, stream: bigint | null): DeviceTables {
    const plan = this.#plans[frame] ?? this.#make(frame, numEntries);
    this.#native.gatherOnDevice(frame, numEntries, stream);
    plan.numEntries = numEntries;
    return plan.tables;
  }

  /** Makes the tables of a frame. The arguments are checked first, so that a refused call takes no memory. */
  #make(frame: number, numEntries: number): PlanTables {
    const index = checkInteger('frame', frame, 0, this.#frames.length - 1);
    checkInteger('numEntries', numEntries, 0, this.#shape.maxEntries);
    const plan = new PlanTables(this.#native, this.#frames[index], this.set);
    this.#plans[index] = plan;
    return plan;
  }
}

/** The tables of one frame: the one set that all frames share, with `readTokens` for the requests in this frame. */
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

function makeSet(native: NativeCore, shape: TablesShape): DeviceTableSet {
  const made = native.makeDeviceTables(shape.maxTokens);
  const arrays = TABLE_NAMES.map((name, i) => {
    const { pointer, shape: dimensions, dtype } = made.arrays[i];
    return [
      name,
      Object.freeze({ pointer, shape: Object.freeze(dimensions), dtype, device: `cuda:${made.device}` }),
    ];
  });
  const read = (name: TableName): BigInt64Array | Int32Array => {
    const index = TABLE_NAMES.indexOf(name);
    if (index < 0) throw badArgument('name', show(name), `one of ${TABLE_NAMES.join(', ')}`);
    const elements = made.arrays[index].shape.reduce((product, dimension) => product * dimension, 1);
    const out = made.arrays[index].dtype === 'int64' ? new BigInt64Array(elements) : new Int32Array(elements);
    native.readDeviceTable(index, out.buffer);
    return out;
  };
  return Object.freeze({
    ...(Object.fromEntries(arrays) as Record<TableName, DeviceArray>),
    ...shape,
    descriptor: made.descriptor,
    get waits() {
      return native.gatherWaits();
    },
    read: read as DeviceTableSet['read'],
  });
}
