/** Smaller values, in bytes, are left to the client's own parser. */
const LEAST_BYTES = 2 ** 14;
/** Bytes that are read at once while no large value is being read. */
const SCRATCH_BYTES = 2 ** 16;
/** Number of buffers that are kept for later values. */
const MOST_KEPT = 8;
/** The beginning of a stand-in. */
const MARK = 'blockstep bulk ';
const [DOLLAR, STAR, RETURN] = [0x24, 0x2a, 0x0d];

/**
 * Takes large values out of a server's reply stream, and reads each directly into its own buffer.
 * The client gets a stand-in: a small value that names the buffer. The client's parser would copy
 * every value twice, from pieces of 64 KiB, which costs more than reading it.
 *
 * The reader knows only the necessary part of the protocol: lines, and values after a line with
 * their length. All commands of a block store are answered in this form. At an array, which answers
 * none of these commands, the reader passes everything on from then on.
 */
export class BulkReader {
  readonly #pass: (bytes: Buffer) => void;
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  /** By number: values that were read and not yet taken. */
  readonly #values = new Map<number, Buffer>();
  readonly #kept: Buffer[] = [];
  #lastNumber = 0;
  /** The beginning of an incomplete line. */
  #line = Buffer.alloc(0);
  /** Remaining bytes of a small value and its line end, which pass unchanged. */
  #numPassing = 0;
  /** The value that is being read, with its line end; null if there is none. */
  #target: Buffer | null = null;
  #numRead = 0;
  #isBlind = false;

  /** @param pass receives the bytes for the client's parser */
  constructor(pass: (bytes: Buffer) => void) {
    this.#pass = pass;
  }

  /** Returns the buffer for the next bytes of the stream. */
  room(): Buffer {
    return this.#target === null ? this.#scratch : this.#target.subarray(this.#numRead);
  }

  /** Handles bytes that were read into `room`. */
  receive(count: number): void {
    if (this.#target !== null) {
      this.#grow(count);
      return;
    }
    // The scratch buffer is reused, but the parser keeps its input.
    const bytes = Buffer.from(this.#scratch.subarray(0, count));
    if (this.#isBlind) this.#pass(bytes);
    else this.#scan(bytes);
  }

  /**
   * Returns the value behind a reply that is a stand-in; else the reply itself. `give` must follow.
   */
  open(reply: Buffer): Buffer {
    if (reply.length > 40 || reply.toString('latin1', 0, MARK.length) !== MARK) return reply;
    const number = Number(reply.toString('latin1', MARK.length));
    const value = this.#values.get(number);
    this.#values.delete(number);
    return value ?? reply;
  }

  /** Gives back a value that is no longer read. */
  give(value: Buffer): void {
    if (value.length >= LEAST_BYTES && this.#kept.length < MOST_KEPT) this.#kept.push(value);
  }

  #scan(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#numPassing > 0) {
        const end = Math.min(bytes.length, at + this.#numPassing);
        this.#numPassing -= end - at;
        this.#pass(bytes.subarray(at, end));
        at = end;
        continue;
      }
      const end = bytes.indexOf('\n', at) + 1;
      const piece = bytes.subarray(at, end === 0 ? bytes.length : end);
      const line = this.#line.length === 0 ? piece : Buffer.concat([this.#line, piece]);
      at += piece.length;
      if (end === 0) {
        this.#line = Buffer.from(line);
        return;
      }
      this.#line = Buffer.alloc(0);
      at = this.#lineRead(line, bytes, at);
    }
  }

  /** Handles a whole line. @returns the place where the scan continues */
  #lineRead(line: Buffer, bytes: Buffer, at: number): number {
    const length = line[0] === DOLLAR ? Number(line.toString('latin1', 1, line.length - 2)) : -1;
    if (length >= LEAST_BYTES) {
      this.#begin(length);
      const end = Math.min(bytes.length, at + length + 2);
      bytes.copy(this.#target as unknown as Buffer, 0, at, end);
      this.#grow(end - at);
      return end;
    }
    this.#pass(line);
    if (length >= 0) this.#numPassing = length + 2;
    if (line[0] !== STAR && line.at(-2) === RETURN) return at;
    this.#isBlind = true;
    if (at < bytes.length) this.#pass(bytes.subarray(at));
    return bytes.length;
  }

  #begin(length: number): void {
    const kept = this.#kept.findIndex((buffer) => buffer.buffer.byteLength === length + 2);
    const own = kept >= 0 ? this.#kept.splice(kept, 1)[0] : Buffer.allocUnsafeSlow(length + 2);
    this.#target = Buffer.from(own.buffer, 0, length + 2);
    this.#numRead = 0;
  }

  #grow(count: number): void {
    const target = this.#target as Buffer;
    this.#numRead += count;
    if (this.#numRead < target.length) return;
    this.#target = null;
    const number = ++this.#lastNumber;
    this.#values.set(number, target.subarray(0, target.length - 2));
    const name = `${MARK}${number}`;
    this.#pass(Buffer.from(`$${name.length}\r\n${name}\r\n`));
  }
}
