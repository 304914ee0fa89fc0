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
  #numClients = 0;
  #isEnding = false;

  private constructor() {
    this.#worker = startThread(import.meta.url, 'thread-main', {});
    this.exit = new Promise((resolve) => this.#worker.on('exit', () => resolve()));
  }

  /** @param file null: a thread for one client alone */
  static for(file: SlotFile | null): ThreadHost {
    const running = file === null ? undefined : OF_FILES.get(file);
    if (running !== undefined && !running.#isEnding) return running;
    const host = new ThreadHost();
    if (file === null) return host;
    OF_FILES.set(file, host);
    void host.exit.then(() => OF_FILES.get(file) === host && OF_FILES.delete(file));
    return host;
  }

  /** Told what an error of the thread was, before it ends. */
  onError(failed: (error: string) => void): void {
    this.#worker.on('error', (error: unknown) => failed(String(error)));
  }

  /** @param port that of the client, which goes to the thread */
  add(client: ClientMessage, port: MessagePort): void {
    this.#numClients++;
    this.#worker.postMessage(client, [port]);
  }

  /**
   * A client ends, for which it has so many milliseconds.
   * @param gone resolves when it has ended
   * @returns whether it is the last one, which ends the thread: no client may come any more
   */
  remove(gone: Promise<void>, graceMs: number): boolean {
    this.#worker.ref();
    const timer = setTimeout(() => {
      this.#worker.unref();
      void this.#worker.terminate();
    }, graceMs);
    timer.unref();
    void gone.then(() => {
      clearTimeout(timer);
      if (this.#numClients > 0) this.#worker.unref();
    });
    this.#isEnding = --this.#numClients === 0;
    return this.#isEnding;
  }
}
