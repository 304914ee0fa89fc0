import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Heard, News } from '../../base/collections/news.js';

/**
 * The streams with pending text. All of them are written in one microtask, when the work of the
 * turn is done.
 */
const written = new News();

/**
 * A response of server-sent events. The text of one turn goes to the socket in one write, with the
 * framing of HTTP chunks made here. A `response.write` costs twice as much, because it gives the
 * socket three pieces.
 *
 * Invariant: once `#socket` is set, the head of the response has been handed to it, and nothing of
 * the response waits elsewhere.
 */
export class EventStream implements Heard {
  readonly #response: ServerResponse;
  readonly #drained: () => void;
  #socket: Socket | null = null;
  #text = '';
  /**
   * Whether `#text` is pure ASCII. If so, it has as many bytes as characters, and is written
   * without encoding.
   */
  #isAscii = true;
  /** Whether the stream is about to be written. */
  isNews = false;
  #waits = false;

  /** @param drained called when the socket has drained, if `isBlocked` was true before */
  constructor(response: ServerResponse, headers: Readonly<Record<string, unknown>>, drained: () => void) {
    this.#response = response;
    this.#drained = drained;
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      // Proxies that buffer responses would delay the stream.
      'x-accel-buffering': 'no',
    } as Record<string, string>);
    response.flushHeaders();
    // A client of HTTP/1.0 does not support chunks. A response queued behind another on its
    // connection has no socket yet.
    const { socket, chunkedEncoding } = response;
    if (socket !== null && chunkedEncoding && socket.writable) this.#socket = socket;
  }

  /**
   * Whether the client reads more slowly than text comes. Callers should write nothing until the
   * socket has drained.
   */
  get isBlocked(): boolean {
    return this.#waits;
  }

  /** Whether the connection is gone. */
  get isClosed(): boolean {
    return this.#response.destroyed;
  }

  /**
   * Writes events, together with all other text of this turn. @param isAscii whether they are known
   * to be pure ASCII
   */
  write(text: string, isAscii = false): void {
    this.#text += text;
    this.#isAscii &&= isAscii;
    written.add(this);
  }

  /** Writes the pending text, and ends the response. */
  end(): void {
    this.listener();
    this.#response.end();
  }

  /** Writes the pending text. */
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

/** Writes text as one HTTP chunk. @returns false if the socket's buffer is full */
function writeChunk(socket: Socket, text: string, isAscii: boolean): boolean {
  if (isAscii) return socket.write(`${text.length.toString(16)}\r\n${text}\r\n`, 'latin1');
  return socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`, 'utf8');
}
