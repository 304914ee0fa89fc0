import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { BlockstepError, describeError } from '../../../base/errors.js';
import { BLOCK_HASH } from '../../../core/native/block-hash.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import type { StoreStats } from '../../store/client/store-counts.js';
import { StoreThread } from '../../store/client/store-thread.js';
import { slotBytesOf } from '../../store/slots/directory.js';
import { SlotFile } from '../../store/slots/slot-file.js';
import { Outcome } from '../../store/stores/block-store.js';
import { SEAL_BYTES } from '../../store/stores/sealed-value.js';
import { checkStore, type EmbeddedSettings } from '../../store/stores/store-options.js';
import type { DiskOptions } from './disk-options.js';
import type { DiskEnd, DiskOrders, DiskReport, KeyedOrder } from './orders.js';

/** Increased whenever the format changes. */
const VERSION = 1;

/**
 * One rank's part of the disk tier: a file of slots. Its thread reads and writes directly into and
 * from the places of the host tier. Every order ends in one report, after which nothing touches its
 * places.
 *
 * After a reset, earlier blocks must never be found again, not even after a restart. Keys therefore
 * contain an epoch, which is kept in the file. Values of older epochs age and are evicted.
 */
export class DiskTier {
  readonly #store: StoreThread;
  readonly #file: SlotFile;
  /** The first state of the disk. */
  readonly began: NonNullable<DiskReport['began']>;
  /** False: a new epoch could not be written to the file, so the disk is not used. */
  #isOn = true;
  #ended: DiskEnd[] = [];
  /** The KV cache groups and ranks of the engine, as its orders name them. */
  #layout = '';
  /** The common prefix of all keys; empty: it must be recomputed. */
  #prefix = '';
  #lastError: string | null = null;

  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_BAD_FILE */
  constructor(options: DiskOptions, tier: BlockArena, rank: number) {
    const { path, model, maxBytes, timeoutMs = 5000 } = options;
    const directory = resolve(path, `rank-${rank}`);
    refuseLmdb(directory);
    const store = { path: join(directory, 'blocks.slots'), ...(maxBytes !== undefined && { maxBytes }) };
    const settings = checkStore(store) as EmbeddedSettings;
    const names = JSON.stringify([VERSION, BLOCK_HASH, model, tier.bytesPerBlock, rank]);
    this.#file = SlotFile.open(settings.path, { names, isOwn: true });
    try {
      this.#store = new StoreThread({ store, staging: tier, timeoutMs }, this.#file);
    } catch (error) {
      this.#file.release();
      throw error;
    }
    const numBlocks = Math.ceil(settings.maxBytes / slotBytesOf(SEAL_BYTES + tier.bytesPerBlock));
    this.began = { isEmpty: this.#file.isNew, numBlocks };
  }

  /** The hash seed of engines without a configured seed. It survives a restart. */
  get hashSeed(): Uint8Array {
    return this.#file.seed;
  }

  /** Begins the orders of a plan. */
  begin({ layout, reset, finds, reads, writes }: DiskOrders): void {
    if (this.#layout !== layout) this.#prefix = '';
    this.#layout = layout;
    if (reset) this.#renew();
    for (const { job, keys } of finds) this.#find(job, keys);
    for (const order of reads) this.#read(order);
    for (const order of writes) this.#write(order);
  }

  /** Takes the jobs that ended since the last call. */
  drain(): DiskEnd[] {
    this.#store.drain();
    const ended = this.#ended;
    if (ended.length > 0) this.#ended = [];
    return ended;
  }

  stats(): StoreStats {
    const stats = this.#store.stats();
    return this.#lastError === null ? stats : { ...stats, lastError: this.#lastError };
  }

  /**
   * Finishes all writes, and closes the disk. @returns resolves when nothing touches the host tier
   * any more
   */
  close(): Promise<void> {
    return this.#store.close();
  }

  #find(job: number, keys: readonly bigint[]): void {
    const names = this.#named(keys);
    if (names === null) this.#end(job, new Uint8Array(keys.length));
    else this.#store.has(names, (outcomes) => this.#end(job, goodOf(outcomes)));
  }

  #read({ job, keys, places }: KeyedOrder): void {
    const names = this.#named(keys);
    let good = new Uint8Array(keys.length);
    const end = (): void => this.#end(job, good);
    if (names === null) end();
    else this.#store.get(names, places, (outcomes) => (good = goodOf(outcomes)), end);
  }

  /** Stores values. Keys that are already there are skipped. */
  #write({ job, keys, places }: KeyedOrder): void {
    const names = this.#named(keys);
    let good = new Uint8Array(keys.length);
    const end = (): void => this.#end(job, good);
    if (names === null) end();
    else this.#store.put(names, places, (outcomes) => (good = goodOf(outcomes)), end);
  }

  #end(job: number, good: Uint8Array): void {
    this.#ended.push({ job, good });
  }

  /** Returns the keys in the store's form; null while the disk is off. */
  #named(keys: readonly bigint[]): string[] | null {
    if (!this.#isOn) return null;
    if (this.#prefix === '') {
      const hash = createHash('sha256').update(JSON.stringify([this.#file.epoch, this.#layout]));
      this.#prefix = `${hash.digest('hex').slice(0, 32)}:`;
    }
    return keys.map((key) => this.#prefix + key.toString(16));
  }

  /** Begins an epoch. If it cannot be written, the disk is off until an epoch can be written. */
  #renew(): void {
    this.#prefix = '';
    try {
      this.#file.renew();
      this.#isOn = true;
    } catch (error) {
      this.#isOn = false;
      this.#lastError = `the disk tier is off, since its epoch could not be written: ${describeError(error)}`;
    }
  }
}

/**
 * @throws ERR_BLOCKSTEP_BAD_FILE: earlier versions left a database there, which must not be removed
 * silently
 */
function refuseLmdb(directory: string): void {
  const file = join(directory, 'blocks.mdb');
  if (!existsSync(file)) return;
  const message = `disk.path has a database of LMDB, in which blocks were kept before: delete ${JSON.stringify(file)}, or name another path`;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', message);
}

/** Returns 1 for each good outcome, else 0. */
function goodOf(outcomes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(outcomes, (outcome) => Number(outcome === Outcome.done));
}
