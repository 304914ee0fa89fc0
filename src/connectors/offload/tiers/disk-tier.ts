import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '../../../base/errors.js';
import { BLOCK_HASH } from '../../../core/native/block-hash.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import type { StoreStats } from '../../store/client/store-counts.js';
import { StoreThread } from '../../store/client/store-thread.js';
import { Outcome } from '../../store/stores/block-store.js';
import { checkStore, type EmbeddedSettings } from '../../store/stores/store-options.js';
import type { DiskOptions } from './disk-options.js';
import { type DiskEnd, type DiskOrders, type DiskReport, Good, type KeyedOrder } from './orders.js';

/** Raised whenever the same bytes would mean something else. */
const VERSION = 1;

/**
 * The part of the disk tier that one rank has: an embedded store, which a thread of its own reads and writes straight from
 * and into the places of the host tier. Every order ends in one report, and only when nothing touches its places any more.
 *
 * After a reset nothing that was stored before may be found again, neither now nor after a restart. So keys name an epoch,
 * which stands in a file beside the store; what is stored under older epochs ages, and goes.
 */
export class DiskTier {
  readonly #store: StoreThread;
  readonly #epochFile: string;
  readonly #names: string;
  /** How the disk has begun. */
  readonly began: NonNullable<DiskReport['began']>;
  /** Null: none could be kept, and the disk is not used. */
  #epoch: string | null = null;
  #ended: DiskEnd[] = [];
  /** The KV cache groups of the engine, as its orders name them. */
  #groups = '';
  #lastError: string | null = null;

  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_PACKAGE, ERR_BLOCKSTEP_BAD_FILE */
  constructor(options: DiskOptions, tier: BlockArena, rank: number) {
    const { path, model, maxBytes, timeoutMs = 5000 } = options;
    const directory = join(path, `rank-${rank}`);
    mkdirSync(directory, { recursive: true });
    const store = { path: join(directory, 'blocks.mdb'), ...(maxBytes !== undefined && { maxBytes }) };
    const settings = checkStore(store) as EmbeddedSettings;
    this.#store = new StoreThread({ store: settings, staging: tier, timeoutMs });
    this.#epochFile = join(directory, 'epoch');
    this.#names = JSON.stringify([VERSION, BLOCK_HASH, model, tier.bytesPerBlock, rank]);
    this.#epoch = readEpoch(this.#epochFile);
    const numBlocks = Math.ceil(settings.maxBytes / tier.bytesPerBlock);
    this.began = { isEmpty: this.#epoch === null, numBlocks };
    if (this.#epoch === null) this.#renew();
  }

  /** Begins what a plan orders. */
  begin({ groups, reset, finds, reads, writes }: DiskOrders): void {
    this.#groups = groups;
    if (reset) this.#renew();
    for (const { job, keys } of finds) this.#find(job, keys);
    for (const order of reads) this.#read(order);
    for (const order of writes) this.#write(order);
  }

  /** The jobs that are over since the last call. */
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

  /** Writes what is to be written, and ends. @returns resolves when nothing touches the host tier any more */
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

  /** Writes the keys that are not there. */
  #write({ job, keys, places }: KeyedOrder): void {
    const names = this.#named(keys);
    const good = new Uint8Array(keys.length);
    const end = (): void => this.#end(job, good);
    if (names === null) {
      end();
      return;
    }
    this.#store.has(names, (there) => {
      const missing = keys.map((_, i) => i).filter((i) => there[i] === Outcome.missing);
      for (const i of good.keys()) if (there[i] === Outcome.done) good[i] = Good.already;
      if (missing.length === 0) {
        end();
        return;
      }
      const stored = (outcomes: Uint8Array): void => {
        for (const [i, at] of missing.entries()) good[at] = Number(outcomes[i] === Outcome.done);
      };
      const [keysLeft, placesLeft] = [
        missing.map((i) => names[i]),
        Int32Array.from(missing, (i) => places[i]),
      ];
      this.#store.put(keysLeft, placesLeft, stored, end);
    });
  }

  #end(job: number, good: Uint8Array): void {
    this.#ended.push({ job, good });
  }

  /** The keys as the store knows them; null while there is no epoch. */
  #named(keys: readonly bigint[]): string[] | null {
    if (this.#epoch === null) return null;
    // What one group of full attention stored before there were others is found still.
    const groups = this.#groups === '' ? '' : `${this.#groups}/`;
    const prefix = `${this.#names}/${this.#epoch}/${groups}`;
    return keys.map((key) => prefix + key.toString(16));
  }

  /** Begins an epoch. If it cannot be kept there is none, now and after a restart, until one can be kept. */
  #renew(): void {
    const epoch = randomUUID();
    this.#epoch = null;
    try {
      rmSync(this.#epochFile, { force: true });
      writeFileSync(`${this.#epochFile}.new`, epoch);
      renameSync(`${this.#epochFile}.new`, this.#epochFile);
      this.#epoch = epoch;
    } catch (error) {
      this.#lastError = `the disk tier is off, since its epoch could not be written: ${describeError(error)}`;
    }
  }
}

/** The epoch of an earlier run; null if there is none. */
function readEpoch(file: string): string | null {
  try {
    return readFileSync(file, 'utf8') || null;
  } catch {
    return null;
  }
}

/** Which outcomes are good. */
function goodOf(outcomes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(outcomes, (outcome) => Number(outcome === Outcome.done));
}
