import type { Request } from '../../scheduler/request/request.js';
import type { StreamBuffer, StreamTotals } from './stream-buffer.js';

/** The streams that have not ended. Those of the running are found by slot, without hashing anything. */
export class LiveStreams {
  readonly totals: StreamTotals = { bufferedTokens: 0, readersWaiting: 0 };
  /** By slot; the stream of an earlier incarnation is told by its request. */
  readonly #bySlot: (StreamBuffer | undefined)[] = [];
  /** Streams whose slot has another by now. */
  readonly #displaced = new Map<Request, StreamBuffer>();
  readonly #live = new Set<StreamBuffer>();
  /** Streams that have ended so far, each by its request's end. */
  numEnded = 0;

  get size(): number {
    return this.#live.size;
  }

  add(stream: StreamBuffer): void {
    this.#live.add(stream);
    // Its request has ended outside an update, and its row is still to come; meanwhile the slot is somebody else's.
    const displaced = this.#bySlot[stream.request.slot];
    if (displaced !== undefined) this.#displaced.set(displaced.request, displaced);
    this.#bySlot[stream.request.slot] = stream;
  }

  /** The stream of this very incarnation. */
  of(request: Request): StreamBuffer | undefined {
    const stream = this.#bySlot[request.slot];
    return stream !== undefined && stream.request === request ? stream : this.#displaced.get(request);
  }

  /** Forgets a stream that has ended. */
  remove(stream: StreamBuffer): void {
    if (this.#live.delete(stream)) this.numEnded++;
    this.#displaced.delete(stream.request);
    const { slot } = stream.request;
    if (this.#bySlot[slot] === stream) this.#bySlot[slot] = undefined;
  }

  /** Forgets all of them, and gives them back. */
  takeAll(): StreamBuffer[] {
    const all = [...this.#live];
    this.#live.clear();
    this.#displaced.clear();
    this.#bySlot.length = 0;
    return all;
  }

  [Symbol.iterator](): IterableIterator<StreamBuffer> {
    return this.#live.values();
  }
}
