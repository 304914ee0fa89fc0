import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Heard, News } from '../../base/collections/news.js';

/** The streams that have something to write. All of them are written when the work of the turn is done, in one microtask. */
const written = new News();

/**
 * A response of server-sent events. What is written in one turn goes out as one write of the socket, with the framing of HTTP's chunks
 * made here: a `response.write` costs twice as much, since it gives the socket three pieces.
 *
 * Invariant: once `#socket` is set, the head of the response has been handed to it, and nothing of the response waits elsewhere.
 */
export class EventStream implements Heard {
  readonly #response: ServerResponse;
  readonly #drained: () => void;
  #socket: Socket | null = null;
  #text = '';
  /** Whether `#text` is ASCII alone: then it has as many bytes as characters, and is written as it is. */
  #isAscii = true;
  /** Whether it is about to be written. */
  isNews = false;
  #waits = false;

  /** @param drained called when the socket has taken what it was given, if `isBlocked` was true before */
  constructor(response: ServerResponse, headers: Readonly<Record<string, unknown>>, drained: () => void) {
    this.#response = response;
    this.#drained = drained;
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      // Proxies that collect answers would keep the stream from its reader.
      'x-accel-buffering': 'no',
    } as Record<string, string>);
    response.flushHeaders();
    // A client of HTTP/1.0 knows no chunks, and a response behind another one on its connection has no socket yet.
    const { socket, chunkedEncoding } = response;
    if (socket !== null && chunkedEncoding && socket.writable) this.#socket = socket;
  }

  /** Whether the client is slower than its text: nothing should be written until it has taken more. */
  get isBlocked(): boolean {
    return this.#waits;
  }

  /** Whether the connection is gone. */
  get isClosed(): boolean {
    return this.#response.destroyed;
  }

  /** Writes events, together with what else is written in this turn. @param isAscii whether they are known to be ASCII alone */
  write(text: string, isAscii = false): void {
    this.#text += text;
    this.#isAscii &&= isAscii;
    written.add(this);
  }

  /** Writes what was not written yet, and ends the response. */
  end(): void {
    this.listener();
    this.#response.end();
  }

  /** Writes what was not written yet. */
  listener(): void {
    const text = this.#text;
    const isAscii = this.#isAscii;
    this.#text = '';
    this.#isAscii = true;
    if (text === '' || this.isClosed) return;
    const goesOn =
      this.#socket === null ? this.#response.write(text) : writeChunk(this.#socket, text, isAscii);
    if (goesOn || this.#waits) return;
    this.#waits = true;
    (this.#socket ?? this.#response).once('drain', () => {
      this.#waits = false;
      this.#drained();
    });
  }
}

/** Writes text as one chunk of HTTP. @returns false if the socket wants no more for now */
function writeChunk(socket: Socket, text: string, isAscii: boolean): boolean {
  if (isAscii) return socket.write(`${text.length.toString(16)}\r\n${text}\r\n`, 'latin1');
  return socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`, 'utf8');
}
