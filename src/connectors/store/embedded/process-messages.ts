import type { BlockArena } from '../../../transfer/block-arena.js';

/**
 * Where values are that go to another process: one behind the other in memory that both have, or in the message itself where no
 * memory can be shared.
 */
export interface Parcel {
  /** Bytes of each value; -1: there is none. */
  readonly sizes: Int32Array;
  /** The memory; null: the values are in the message. */
  readonly window: BlockArena['descriptor'] | null;
  /** All values, one behind the other; null: they are in the window. */
  readonly bytes: Uint8Array | null;
}

/** What the process of a file is asked to do. */
export type FileOrder =
  | { readonly call: number; readonly kind: 'has'; readonly keys: readonly string[] }
  | { readonly call: number; readonly kind: 'get'; readonly keys: readonly string[] }
  | { readonly call: number; readonly kind: 'remove'; readonly keys: readonly string[] }
  | {
      readonly call: number;
      readonly kind: 'put';
      readonly keys: readonly string[];
      readonly values: Parcel;
    }
  /** The values of a `get` were taken: its window is free again. */
  | { readonly kind: 'taken'; readonly call: number }
  /** The file is to be closed, and the process to end. */
  | { readonly kind: 'close' };

/** What the process of a file says. */
export type FileReply =
  | { readonly kind: 'open' }
  /** The file cannot be opened; the process ends. */
  | { readonly kind: 'refused'; readonly error: string; readonly isDamaged: boolean }
  | { readonly kind: 'done'; readonly call: number; readonly outcomes: Uint8Array | null }
  | { readonly kind: 'read'; readonly call: number; readonly values: Parcel }
  | { readonly kind: 'failed'; readonly call: number; readonly error: string };
