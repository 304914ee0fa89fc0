import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '../../base/errors.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import type { StoreStats } from '../store/client/store-counts.js';
import { StoreThread } from '../store/client/store-thread.js';
import { Outcome } from '../store/stores/block-store.js';
import type { DiskOptions } from './options.js';
import type { DiskOrders, KeyedOrder } from './orders.js';

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
  /** Null: none could be kept, and the disk is not used. */
  #epoch: string | null = null;
  #ended: number[] = [];
  #lastError: string | null = null;

  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_PACKAGE, ERR_BLOCKSTEP_BAD_FILE */
  constructor(options: DiskOptions, tier: BlockArena, rank: number) {
    const { path, model, maxBytes, timeoutMs = 5000 } = options;
    const directory = join(path, `rank-${rank}`);
    mkdirSync(directory, { recursive: true });
    const store = { path: join(directory, 'blocks.mdb'), ...(maxBytes !== undefined && { maxBytes }) };
    this.#store = new StoreThread({ store, staging: tier, timeoutMs });
    this.#epochFile = join(directory, 'epoch');
    this.#names = JSON.stringify([VERSION, model, tier.bytesPerBlock, rank]);
    this.#epoch = readEpoch(this.#epochFile);
    if (this.#epoch === null) this.#renew();
  }

  /** Begins what a plan orders. */
  begin({ reset, finds, reads, writes }: DiskOrders): void {
    if (reset) this.#renew();
    for (const { job, keys } of finds) this.#find(job, keys);
    for (const order of reads) this.#read(order);
    for (const order of writes) this.#write(order);
  }

  /** The jobs that are over since the last call, each with the number of leading keys for which it went well. */
  drain(): number[] {
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
    if (names === null) this.#ended.push(job, 0);
    else this.#store.has(names, (outcomes) => this.#ended.push(job, leading(outcomes)));
  }

  #read({ job, keys, places }: KeyedOrder): void {
    const names = this.#named(keys);
    let count = 0;
    const end = (): unknown => this.#ended.push(job, count);
    if (names === null) end();
    else this.#store.get(names, places, (outcomes) => (count = leading(outcomes)), end);
  }

  /** Writes the keys that are not there. */
  #write({ job, keys, places }: KeyedOrder): void {
    const names = this.#named(keys);
    let count = 0;
    const end = (): unknown => this.#ended.push(job, count);
    if (names === null) {
      end();
      return;
    }
    this.#store.has(names, (there) => {
      const missing = keys.map((_, i) => i).filter((i) => there[i] === Outcome.missing);
      if (missing.length === 0) {
        end();
        return;
      }
      const stored = (outcomes: Uint8Array): void => {
        count = outcomes.filter((outcome) => outcome === Outcome.done).length;
      };
      const [keysLeft, placesLeft] = [
        missing.map((i) => names[i]),
        Int32Array.from(missing, (i) => places[i]),
      ];
      this.#store.put(keysLeft, placesLeft, stored, end);
    });
  }

  /** The keys as the store knows them; null while there is no epoch. */
  #named(keys: readonly bigint[]): string[] | null {
    if (this.#epoch === null) return null;
    const prefix = `${this.#names}/${this.#epoch}/`;
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

/** How many outcomes are good, from the first one on. */
function leading(outcomes: Uint8Array): number {
  const bad = outcomes.findIndex((outcome) => outcome !== Outcome.done);
  return bad < 0 ? outcomes.length : bad;
}
