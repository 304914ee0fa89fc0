import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { startThread } from '../../../base/scripts/script-file.js';
import {
  type AnswerMessage,
  type CloseMessage,
  type JobMessage,
  Posted,
  type ThreadData,
} from './messages.js';
import { GRACE_MS, type StoreLink } from './store-link.js';

/**
 * A running thread of a store, and the messages to and from it. It has no event handlers for messages: who wants an
 * answer looks for it, at any time and also without a turn of the event loop. The thread keeps no process alive.
 */
export class ThreadLink implements StoreLink {
  readonly exit: Promise<void>;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  /** Milliseconds that the thread is given to end by itself. A disk takes its time, and answers at last. */
  readonly #graceMs: number;
  readonly #posted = new Int32Array(new SharedArrayBuffer(8));
  #numTaken = 0;

  /**
   * @param data what the thread is started with
   * @param failed told what an error of the thread was, before it ends
   */
  constructor(data: Omit<ThreadData, 'port' | 'posted'>, failed: (error: string) => void) {
    const { port1, port2 } = new MessageChannel();
    const workerData: ThreadData = {
      ...data,
      port: port2,
      posted: this.#posted.buffer as SharedArrayBuffer,
    };
    this.#port = port1;
    this.#graceMs = data.store.kind === 'embedded' ? 5 * GRACE_MS : GRACE_MS;
    this.#worker = startThread(import.meta.url, 'thread-main', { workerData, transferList: [port2] });
    this.#worker.on('error', (error: unknown) => failed(String(error)));
    this.exit = new Promise((resolve) => this.#worker.on('exit', () => resolve()));
  }

  get isReady(): boolean {
    return Atomics.load(this.#posted, Posted.ready) === 1;
  }

  send(job: JobMessage): void {
    this.#port.postMessage(job);
  }

  receive(): AnswerMessage | null {
    if (Atomics.load(this.#posted, Posted.answers) === this.#numTaken) return null;
    const answer = receiveMessageOnPort(this.#port)?.message as AnswerMessage | undefined;
    if (answer === undefined) return null;
    this.#numTaken = (this.#numTaken + 1) | 0;
    return answer;
  }

  /** The thread may be writing the job's places just now. */
  giveUp(): boolean {
    return false;
  }

  close(): void {
    this.#port.postMessage({ close: true } satisfies CloseMessage);
    this.#worker.ref();
    const timer = setTimeout(() => {
      this.#worker.unref();
      void this.#worker.terminate();
    }, this.#graceMs);
    timer.unref();
    void this.exit.then(() => clearTimeout(timer));
  }

  release(): void {
    this.#port.close();
  }
}
