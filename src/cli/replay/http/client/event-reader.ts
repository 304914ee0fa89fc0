/**
 * Reads server-sent events from pieces of any size. A piece may end inside a line, and between CR
 * and LF. Only the data of an event is read, because OpenAI's API has nothing else.
 */
export class EventReader {
  readonly #onData: (data: string) => void;
  /** The beginning of an incomplete line. */
  #rest = '';
  /**
   * Whether the last piece ended with CR, so that an LF at the start of the next piece belongs to
   * it.
   */
  #endedWithCr = false;
  /** The data lines of the incomplete event; null: none yet. */
  #data: string | null = null;

  /** @param onData receives the data of each event that has some */
  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** Reads the next piece of the text. The piece must end with a whole character. */
  push(piece: string): void {
    const fresh = this.#endedWithCr && piece.startsWith('\n') ? piece.slice(1) : piece;
    if (piece !== '') this.#endedWithCr = piece.endsWith('\r');
    const lines = (this.#rest + fresh).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() as string;
    for (const line of lines) this.#line(line);
  }

  #line(line: string): void {
    if (line === '') {
      const data = this.#data;
      this.#data = null;
      if (data !== null) this.#onData(data);
    } else if (line.startsWith('data:')) {
      const value = line.slice(line.startsWith('data: ') ? 6 : 5);
      this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
    }
  }
}
