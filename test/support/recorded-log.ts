// A log in memory, and its frames.
import type { LogSink } from '../../src/scheduler/options/options.js';

/** A log in memory. */
export class MemorySink implements LogSink {
  readonly #parts: Buffer[] = [];

  write(bytes: Uint8Array): void {
    this.#parts.push(Buffer.from(bytes));
  }

  get bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.#parts));
  }
}

/** One record of a log, from byte `at` to before byte `end`. */
export interface Frame {
  kind: number;
  at: number;
  end: number;
}

/**
 * The places of the records of a log, by their heads alone: its bytes may have been damaged on
 * purpose.
 */
export function frames(bytes: Uint8Array): Frame[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const found: Frame[] = [];
  for (let at = 12; at < bytes.length; ) {
    const end = at + 8 + Math.ceil(view.getUint32(at + 4, true) / 4) * 4;
    found.push({ kind: view.getUint32(at, true), at, end });
    at = end;
  }
  return found;
}
