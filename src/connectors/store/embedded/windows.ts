import { BlockArena } from '../../../transfer/block-arena.js';
import type { Parcel } from './process-messages.js';

/** Size of the blocks of a window's arena: windows have whole ones. */
const UNIT_BYTES = 2 ** 20;
/** An ArrayBuffer over native memory has less. */
const MOST_BYTES = 2 ** 32;
/** Most windows of the other side that are kept open: two calls are under way in each direction. */
const MOST_OPEN = 4;

/** The windows in which a side sends values to the other process. One that is free is used again; one that is too small makes room. */
export class SentWindows {
  readonly #free: BlockArena[] = [];
  #canShare = true;

  /** Begins a parcel of so many values. */
  begin(count: number): SentParcel {
    return new SentParcel(this, count);
  }

  /** Memory that the other process can map; null if there is none, or it would be too large. */
  take(numBytes: number): BlockArena | null {
    if (!this.#canShare || numBytes >= MOST_BYTES) return null;
    const fitting = this.#free.findIndex((window) => window.numBytes >= numBytes);
    if (fitting >= 0) return this.#free.splice(fitting, 1)[0];
    this.#free.pop()?.dispose();
    try {
      const numBlocks = Math.ceil(numBytes / UNIT_BYTES);
      return BlockArena.allocate({ numBlocks, bytesPerBlock: UNIT_BYTES, shared: true });
    } catch {
      // This system shares no memory, or has none left: values go in messages from now on.
      this.#canShare = false;
      return null;
    }
  }

  /** A window is free again. */
  give(window: BlockArena): void {
    this.#free.push(window);
  }

  dispose(): void {
    for (const window of this.#free.splice(0)) window.dispose();
  }
}

/** Values on their way to the other process. They are copied when they are added. */
export class SentParcel {
  readonly #windows: SentWindows;
  readonly #sizes: Int32Array;
  #count = 0;
  #window: BlockArena | null = null;
  #bytes = new Uint8Array(0);
  #numBytes = 0;

  constructor(windows: SentWindows, count: number) {
    this.#windows = windows;
    this.#sizes = new Int32Array(count).fill(-1);
  }

  /** Adds the next value; null: there is none. */
  add(value: Uint8Array | null): void {
    const index = this.#count++;
    if (value === null) return;
    this.#sizes[index] = value.length;
    // The values of an engine are all of one size, so that the first one says how much room there must be.
    if (this.#numBytes + value.length > this.#bytes.length)
      this.#grow(this.#numBytes + value.length * (this.#sizes.length - index));
    this.#bytes.set(value, this.#numBytes);
    this.#numBytes += value.length;
  }

  /** All values were added. */
  end(): Parcel {
    if (this.#window !== null) return { sizes: this.#sizes, window: this.#window.descriptor, bytes: null };
    return { sizes: this.#sizes, window: null, bytes: this.#bytes.subarray(0, this.#numBytes) };
  }

  /** The other side has taken the values. */
  free(): void {
    if (this.#window !== null) this.#windows.give(this.#window);
    this.#window = null;
  }

  #grow(numBytes: number): void {
    const window = this.#windows.take(numBytes);
    const bytes = window === null ? new Uint8Array(numBytes) : new Uint8Array(window.buffer);
    bytes.set(this.#bytes.subarray(0, this.#numBytes));
    this.free();
    this.#window = window;
    this.#bytes = bytes;
  }
}

/** The windows of the other side, as far as they are mapped here. */
export class SeenWindows {
  /** By id, the one that was mapped first in front. */
  readonly #open = new Map<string, BlockArena>();

  /**
   * Unpacks a parcel. The values are views, valid until the other side is told that they were taken.
   * @throws if the window cannot be mapped
   */
  unpack({ sizes, window, bytes }: Parcel): (Uint8Array | null)[] {
    const all = window === null ? (bytes as Uint8Array) : new Uint8Array(this.#map(window).buffer);
    let at = 0;
    return Array.from(sizes, (size) => {
      if (size < 0) return null;
      at += size;
      return all.subarray(at - size, at);
    });
  }

  dispose(): void {
    for (const window of this.#open.values()) window.dispose();
    this.#open.clear();
  }

  #map(descriptor: BlockArena['descriptor']): BlockArena {
    const known = this.#open.get(descriptor.id);
    if (known !== undefined) return known;
    const window = BlockArena.attach(descriptor);
    this.#open.set(descriptor.id, window);
    for (const [id, oldest] of this.#open) {
      if (this.#open.size <= MOST_OPEN) break;
      this.#open.delete(id);
      oldest.dispose();
    }
    return window;
  }
}
