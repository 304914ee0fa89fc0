import type { MessagePort, Worker } from 'node:worker_threads';
import { startThread } from '../../../base/scripts/script-file.js';
import type { SlotFile } from '../slots/slot-file.js';
import type { ClientMessage } from './messages.js';

/** The threads of files: whoever uses a file has the same one, since it knows what lies where. */
const OF_FILES = new Map<SlotFile, ThreadHost>();

/** A running thread, with the clients that it serves. It keeps no process alive, but while a client ends. */
export class ThreadHost {
  /** Resolves when the thread has ended. */
  readonly exit: Promise<void>;
  readonly #worker: Worker;
  /** When clients may come: the thread before this one has ended. */
  readonly #after: Promise<void>;
  /** Told what an error of the thread was, before it ends; one for each client. */
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

  /** @param file null: a thread for one client alone */
  static for(file: SlotFile | null): ThreadHost {
    const running = file === null ? undefined : OF_FILES.get(file);
    if (running !== undefined && !running.#isEnding) return running;
    // Two threads that know what lies where would overwrite each other's values.
    const host = new ThreadHost(running?.exit ?? Promise.resolve());
    if (file === null) return host;
    OF_FILES.set(file, host);
    void host.exit.then(() => OF_FILES.get(file) === host && OF_FILES.delete(file));
    return host;
  }

  /**
   * @param port that of the client, which goes to the thread
   * @param failed told what an error of the thread was, before it ends
   */
  add(client: ClientMessage, port: MessagePort, failed: (error: string) => void): void {
    this.#failed.add(failed);
    void this.#after.then(() => this.#worker.postMessage(client, [port]));
  }

  /**
   * A client ends, for which it has so many milliseconds.
   * @param failed as it was given to `add`
   * @param gone resolves when it has ended
   * @returns whether it is the last one, which ends the thread: no client may come any more
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
