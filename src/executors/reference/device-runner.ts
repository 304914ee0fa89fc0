import { BlockstepError, badArgument, show } from '../../base/errors.js';
import {
  type DeviceArray,
  type DeviceTables,
  TABLE_NAMES,
  type TableName,
} from '../../core/device-tables.js';
import { loadAddon } from '../../core/loader.js';
import {
  KV_ENTRY_BYTES,
  type NativeDeviceReference,
  type NativeReferenceConfig,
} from '../../core/native/native-reference.js';
import type { GroupShape, TablesShape } from '../../core/native/native-tables.js';
import type { ExecutorResult } from '../../engine/executor/executor.js';
import { BlockArena } from '../../transfer/block-arena.js';
import { PendingStep, type ReadAnswer, type ReferenceRunner } from './runner.js';
import type { ReferenceStep } from './step.js';

/** The part of a step's tables on a GPU that the executor reads. */
export type TablesOnDevice = TablesShape &
  Pick<DeviceTables, 'readTokens'> &
  Readonly<Record<TableName, ArrayOnDevice>> & {
    /** The tables of each KV cache group. Read only if the executor has several groups. */
    readonly groups?: readonly (GroupShape & Readonly<Record<'slotMapping' | 'blockTable', ArrayOnDevice>>)[];
  };

/** One table of a step in memory of a GPU. */
export type ArrayOnDevice = Pick<DeviceArray, 'pointer' | 'device'>;

/**
 * Turns of the event loop that each check whether a step is done. After this many checks in vain, a
 * check runs once a millisecond.
 */
const EAGER_TURNS = 256;

/**
 * Computes steps over memory of a GPU, in the runner's own stream. The host never blocks: while
 * steps run, turns of the event loop check the oldest step.
 */
export class DeviceRunner implements ReferenceRunner {
  readonly device: string;
  readonly stream: bigint;
  readonly kv: BlockArena;
  readonly #native: NativeDeviceReference;
  readonly #config: NativeReferenceConfig;
  readonly #read: ReadAnswer;
  readonly #pending: PendingStep[] = [];
  #fruitless = 0;
  #looking = false;

  /** @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE */
  constructor(config: NativeReferenceConfig, gpu: number, read: ReadAnswer) {
    const { numBlocks, blockSize } = config;
    this.#native = loadAddon().createDeviceReference(config, gpu);
    this.#config = config;
    this.#read = read;
    this.device = `cuda:${gpu}`;
    this.stream = this.#native.stream();
    const bytesPerBlock = blockSize * KV_ENTRY_BYTES;
    this.kv = new BlockArena(this.#native.arena(), {
      numBlocks,
      bytesPerBlock,
      place: 'device',
      device: gpu,
    });
  }

  get numPending(): number {
    return this.#pending.length;
  }

  run(step: ReferenceStep): Promise<ExecutorResult> {
    const addresses = this.#addresses(step.tables as unknown as TablesOnDevice);
    this.#native.submit(step.io.buffer, addresses, step.known, step.zeroed);
    const pending = new PendingStep(step);
    this.#pending.push(pending);
    this.#fruitless = 0;
    this.#lookSoon();
    return pending.answer.promise;
  }

  adopt(handle: number, blocks: Int32Array): void {
    this.#native.adopt(handle, blocks);
  }

  memory(): { arenaBytes: number; numSequences: number; pinnedBytes: number } {
    return this.#native.memory();
  }

  dispose(error: Error): void {
    this.#failAll(error);
    this.#native.dispose();
    this.kv.dispose();
  }

  /** @throws ERR_BLOCKSTEP_BAD_ARG for tables of the host, or of another shape */
  #addresses(tables: TablesOnDevice): BigUint64Array {
    for (const name of ['maxTokens', 'maxEntries', 'maxBlocksPerRow'] as const) {
      if (tables[name] !== this.#config[name]) {
        throw badArgument(`tables.${name}`, show(tables[name]), `${this.#config[name]}`);
      }
    }
    const addresses = TABLE_NAMES.map((name) => this.#address(`tables.${name}`, tables[name]));
    // fillGroups() has seen that the tables have the executor's groups.
    for (let g = 1; g < (this.#config.groups?.length ?? 1); g++) {
      const group = tables.groups?.[g];
      addresses.push(
        this.#address(`tables.groups[${g}].slotMapping`, group?.slotMapping),
        this.#address(`tables.groups[${g}].blockTable`, group?.blockTable),
      );
    }
    return BigUint64Array.from(addresses);
  }

  #address(name: string, array: Partial<ArrayOnDevice> | undefined): bigint {
    if (array?.device !== this.device)
      throw badArgument(`${name}.device`, show(array?.device), `${this.device}, the executor's`);
    const { pointer } = array;
    if (typeof pointer === 'bigint' && pointer > 0n && pointer < 1n << 64n) return pointer;
    throw badArgument(`${name}.pointer`, show(pointer), 'an address');
  }

  #lookSoon(): void {
    if (this.#looking || this.#pending.length === 0) return;
    this.#looking = true;
    const look = (): void => {
      this.#looking = false;
      this.#look();
      this.#lookSoon();
    };
    if (this.#fruitless < EAGER_TURNS) setImmediate(look);
    else setTimeout(look, 1);
  }

  #look(): void {
    this.#fruitless++;
    while (this.#pending.length > 0) {
      const { step, answer } = this.#pending[0];
      try {
        if (!this.#native.drain(step.io.buffer)) return;
        this.#fruitless = 0;
        this.#pending.shift();
        answer.resolve(this.#read(step));
      } catch (error) {
        // A GPU that is lost, or received half a step, cannot compute the later steps either.
        if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_CUDA') {
          this.#failAll(error);
          return;
        }
        if (this.#pending[0]?.step === step) this.#pending.shift();
        answer.reject(error);
      }
    }
  }

  #failAll(error: unknown): void {
    for (const { answer } of this.#pending.splice(0)) answer.reject(error);
  }
}
