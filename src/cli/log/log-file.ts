// Writes a log to a file while it is recorded; reads a whole log.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { BlockstepError } from '../../base/errors.js';
import type { OutputFile } from '../../report/output-file.js';
import type { LogSink } from '../../scheduler/options/options.js';

const BUFFER_BYTES = 2 ** 20;

/**
 * Collects the records of a scheduler in a buffer, and writes the buffer into a file whenever it is
 * full.
 */
export class LogRecorder implements LogSink {
  readonly #file: OutputFile;
  readonly #buffer = new Uint8Array(BUFFER_BYTES);
  #used = 0;

  constructor(file: OutputFile) {
    this.#file = file;
  }

  /**
   * @throws ERR_BLOCKSTEP_BAD_FILE if the system cannot write the records; the scheduler is
   * unusable then
   */
  write(bytes: Uint8Array): void {
    if (bytes.length > BUFFER_BYTES - this.#used) this.#flush();
    if (bytes.length > BUFFER_BYTES) {
      this.#file.write(bytes);
      return;
    }
    this.#buffer.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  /**
   * Writes the rest of the buffer and gives the file its name. Call it after the disposal of the
   * scheduler, which writes the last commands.
   */
  commit(): void {
    this.#flush();
    this.#file.commit();
  }

  #flush(): void {
    this.#file.write(this.#buffer.subarray(0, this.#used));
    this.#used = 0;
  }
}

/**
 * All bytes of a file.
 * @throws ERR_BLOCKSTEP_BAD_FILE if it cannot be read or does not fit into memory
 */
export function readWhole(path: string): Uint8Array {
  try {
    const descriptor = openSync(path, 'r');
    try {
      const { size } = fstatSync(descriptor);
      const bytes = new Uint8Array(size);
      // readFile would refuse files from 2 GiB on.
      for (let at = 0; at < size; ) {
        const read = readSync(descriptor, bytes, at, Math.min(size - at, 2 ** 30), at);
        if (read === 0) return bytes.subarray(0, at);
        at += read;
      }
      return bytes;
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${path}: cannot be read: ${code ?? message}`, {
      cause,
    });
  }
}
