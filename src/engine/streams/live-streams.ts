import type { Request } from '../../scheduler/request/request.js';
import type { StreamBuffer } from './stream-buffer.js';
import { StreamTotals } from './stream-totals.js';

/** The streams that have not ended, found by the slots of their requests: an array lookup per row, without hashing. */
export class LiveStreams {
  readonly totals = new StreamTotals();
  /**
   * By slot: the stream that was added last. Its `request` shows whether it belongs to the wanted
   * incarnation of the slot.
   */
  readonly #bySlot: (StreamBuffer | undefined)[] = [];
  /** Live streams whose slot has another stream by now. */
  readonly #displaced = new Map<Request, StreamBuffer>();
  readonly #live = new Set<StreamBuffer>();
  /** Number of streams that have ended so far with their requests. */
  numEnded = 0;

  get size(): number {
    return this.#live.size;
  }

  add(stream: StreamBuffer): void {
    this.#live.add(stream);
    // A request may end outside an update. Its slot is then reused while its stream still waits for
    // the row of its end.
    const displaced = this.#bySlot[stream.request.slot];
    if (displaced !== undefined) this.#displaced.set(displaced.request, displaced);
    this.#bySlot[stream.request.slot] = stream;
  }

  /** The live stream of a request: of this incarnation of the slot only. */
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

  /** Forgets all streams. @returns the forgotten streams */
  drain(): StreamBuffer[] {
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
