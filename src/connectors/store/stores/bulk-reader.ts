/** Values of fewer bytes are left to the client's own parser. */
const LEAST_BYTES = 2 ** 14;
/** Bytes that are read at once while no value is being read. */
const SCRATCH_BYTES = 2 ** 16;
/** Buffers that are kept for the next values. */
const MOST_KEPT = 8;
/** What a stand-in begins with. */
const MARK = 'blockstep bulk ';
const [DOLLAR, STAR, RETURN] = [0x24, 0x2a, 0x0d];

/**
 * Takes large values out of the stream of a server's replies, and reads each straight into a buffer of its own. To the
 * client it gives a stand-in: a small value that names the buffer. The client's parser would copy every value twice, from
 * pieces of 64 KiB, which costs more than reading it.
 *
 * It knows as much of the protocol as that needs: lines, and values behind a line that has their length. The commands of a
 * block store are answered so. At an array, which none of them is answered with, it lets everything pass from then on.
 */
export class BulkReader {
  readonly #pass: (bytes: Buffer) => void;
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  /** Values that were read and not taken, by number. */
  readonly #values = new Map<number, Buffer>();
  readonly #kept: Buffer[] = [];
  #lastNumber = 0;
  /** The beginning of a line whose end was not read yet. */
  #line = Buffer.alloc(0);
  /** Bytes of a small value and its line end that pass as they are. */
  #numPassing = 0;
  /** The value that is being read, with its line end; null if there is none. */
  #target: Buffer | null = null;
  #numRead = 0;
  #isBlind = false;

  /** @param pass takes what the client's parser is to see */
  constructor(pass: (bytes: Buffer) => void) {
    this.#pass = pass;
  }

  /** Where the next bytes of the stream are to be read to. */
  room(): Buffer {
    return this.#target === null ? this.#scratch : this.#target.subarray(this.#numRead);
  }

  /** Takes bytes that were read to `room`. */
  take(count: number): void {
    if (this.#target !== null) {
      this.#grow(count);
      return;
    }
    // The scratch buffer is used again, and the parser keeps what it is given.
    const bytes = Buffer.from(this.#scratch.subarray(0, count));
    if (this.#isBlind) this.#pass(bytes);
    else this.#scan(bytes);
  }

  /** The value that a reply stands for; the reply itself if it stands for none. `give` must follow. */
  open(reply: Buffer): Buffer {
    if (reply.length > 40 || reply.toString('latin1', 0, MARK.length) !== MARK) return reply;
    const number = Number(reply.toString('latin1', MARK.length));
    const value = this.#values.get(number);
    this.#values.delete(number);
    return value ?? reply;
  }

  /** Gives back a value that nobody reads any more. */
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

  /** Takes a whole line. @returns where the scan goes on */
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
