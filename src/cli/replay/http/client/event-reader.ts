/**
 * Reads server-sent events, in whatever pieces their text comes: a piece may end inside of a line, and between CR and LF. Of an event
 * its data is all that is read: OpenAI's API has nothing else.
 */
export class EventReader {
  readonly #onData: (data: string) => void;
  /** The beginning of a line that has not ended. */
  #rest = '';
  /** Whether the last piece ended with CR: an LF in front of the next one belongs to it. */
  #endedWithCr = false;
  /** The lines of data of the event that has not ended; null: there is none yet. */
  #data: string | null = null;

  /** @param onData given the data of each event that has some */
  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** The next piece of the text. It must end with a whole character. */
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
