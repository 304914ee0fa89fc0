import type { MessagePort, Worker } from 'node:worker_threads';
import { startThread } from '../../../base/scripts/script-file.js';
import type { SlotFile } from '../slots/slot-file.js';
import type { ClientMessage } from './messages.js';

/**
 * The threads of files. All users of a file share one thread, because the thread knows the contents
 * of the slots.
 */
const OF_FILES = new Map<SlotFile, ThreadHost>();

/** A running thread with its clients. It keeps the process alive only while a client ends. */
export class ThreadHost {
  /** Resolves when the thread has ended. */
  readonly exit: Promise<void>;
  readonly #worker: Worker;
  /** Resolves when clients may be added: the previous thread of the file has ended. */
  readonly #after: Promise<void>;
  /** Called with an error of the thread before it ends; one for each client. */
  readonly #failed = new Set<(error: string) => void>();
  #isEnding = false;

  private constructor(after: Promise<void>) {
    this.#after = after;
    this.#worker = startThread(import.meta.url, 'thread-main', {});
    this.#worker.on('error', (error: unknown) => {
      for (const failed of this.#failed) failed(String(error));
    });
    this.exit = new Promise((resolve) => this.#worker.on('exit', () => resolve()));
  }

  /** @param file null: a thread for a single client */
  static for(file: SlotFile | null): ThreadHost {
    const running = file === null ? undefined : OF_FILES.get(file);
    if (running !== undefined && !running.#isEnding) return running;
    // Two threads with their own maps of the slots would overwrite each other's values.
    const host = new ThreadHost(running?.exit ?? Promise.resolve());
    if (file === null) return host;
    OF_FILES.set(file, host);
    void host.exit.then(() => OF_FILES.get(file) === host && OF_FILES.delete(file));
    return host;
  }

  /**
   * @param port the client's port, which goes to the thread
   * @param failed called with an error of the thread before it ends
   */
  add(client: ClientMessage, port: MessagePort, failed: (error: string) => void): void {
    this.#failed.add(failed);
    void this.#after.then(() => this.#worker.postMessage(client, [port]));
  }

  /**
   * Removes a client, which has `graceMs` milliseconds to end.
   * @param failed as it was given to `add`
   * @param gone resolves when the client has ended
   * @returns whether the client is the last one. The thread then ends, and no client may be added
   * any more
   */
  remove(failed: (error: string) => void, gone: Promise<void>, graceMs: number): boolean {
    this.#worker.ref();
    const timer = setTimeout(() => {
      this.#worker.unref();
      void this.#worker.terminate();
    }, graceMs);
    timer.unref();
    void gone.then(() => {
      clearTimeout(timer);
      if (this.#failed.size > 0) this.#worker.unref();
    });
    this.#failed.delete(failed);
    this.#isEnding = this.#failed.size === 0;
    return this.#isEnding;
  }
}
