import type { Request } from '../../scheduler/request/request.js';
import type { StreamBuffer, StreamTotals } from './stream-buffer.js';

/** The streams that have not ended. They are found by the slots of their requests, without hashing anything. */
export class LiveStreams {
  readonly totals: StreamTotals = { bufferedTokens: 0, readersWaiting: 0 };
  /** By slot: the stream that was added last. Its `request` tells whether it is that of the incarnation asked for. */
  readonly #bySlot: (StreamBuffer | undefined)[] = [];
  /** Streams whose slot has another stream by now. */
  readonly #displaced = new Map<Request, StreamBuffer>();
  readonly #live = new Set<StreamBuffer>();
  /** Streams that have ended so far, each by its request's end. */
  numEnded = 0;

  get size(): number {
    return this.#live.size;
  }

  add(stream: StreamBuffer): void {
    this.#live.add(stream);
    // The request of the stream that stands here has ended outside an update: its slot is another's, and its row is still to come.
    const displaced = this.#bySlot[stream.request.slot];
    if (displaced !== undefined) this.#displaced.set(displaced.request, displaced);
    this.#bySlot[stream.request.slot] = stream;
  }

  /** The stream of a request: of this incarnation of its slot and no other. */
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
