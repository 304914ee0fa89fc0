import { addAbortListener } from 'node:events';
import type { StreamBuffer } from './stream-buffer.js';

interface Watch {
  readonly streams: Set<StreamBuffer>;
  readonly listener: Disposable;
}

/**
 * The abort signals of the requests that have not ended. A signal has one listener for all requests that share it; the listener is
 * removed with the last of these requests.
 */
export class Signals {
  readonly #watches = new WeakMap<AbortSignal, Watch>();
  readonly #abort: (stream: StreamBuffer, reason: unknown) => void;

  constructor(abort: (stream: StreamBuffer, reason: unknown) => void) {
    this.#abort = abort;
  }

  /** Ties a stream to a signal that is not aborted yet, until the stream's end. */
  watch(signal: AbortSignal, stream: StreamBuffer): void {
    const watch = this.#watches.get(signal) ?? this.#listen(signal);
    watch.streams.add(stream);
    stream.release = () => {
      watch.streams.delete(stream);
      if (watch.streams.size > 0) return;
      watch.listener[Symbol.dispose]();
      this.#watches.delete(signal);
    };
  }

  #listen(signal: AbortSignal): Watch {
    const streams = new Set<StreamBuffer>();
    const listener = addAbortListener(signal, () => {
      for (const stream of [...streams]) this.#abort(stream, signal.reason);
    });
    const watch = { streams, listener };
    this.#watches.set(signal, watch);
    return watch;
  }
}
