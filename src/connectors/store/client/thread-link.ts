import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { startThread } from '../../base/script-file.js';
import {
  type AnswerMessage,
  type CloseMessage,
  type JobMessage,
  Posted,
  type ThreadData,
} from './messages.js';

/** Milliseconds that a thread has to end by itself. */
const GRACE_MS = 2000;

/**
 * A running thread of a store, and the messages to and from it. It has no event handlers for messages: who wants an
 * answer looks for it, at any time and also without a turn of the event loop. The thread keeps no process alive.
 */
export class ThreadLink {
  /** Resolves when the thread has ended: it touches no memory any more. */
  readonly exit: Promise<void>;
  readonly #worker: Worker;
  readonly #port: MessagePort;
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
    this.#worker = startThread(import.meta.url, 'thread-main', { workerData, transferList: [port2] });
    this.#worker.on('error', (error: unknown) => failed(String(error)));
    this.exit = new Promise((resolve) => this.#worker.on('exit', () => resolve()));
  }

  /** Whether the thread has started, and tried to open its store. */
  get isReady(): boolean {
    return Atomics.load(this.#posted, Posted.ready) === 1;
  }

  send(job: JobMessage): void {
    this.#port.postMessage(job);
  }

  /** The next answer; null if there is none now. Costs next to nothing then. */
  receive(): AnswerMessage | null {
    if (Atomics.load(this.#posted, Posted.answers) === this.#numTaken) return null;
    const answer = receiveMessageOnPort(this.#port)?.message as AnswerMessage | undefined;
    if (answer === undefined) return null;
    this.#numTaken = (this.#numTaken + 1) | 0;
    return answer;
  }

  /**
   * Has the thread end when it has done what it was given; if it hangs, it is ended after a while. Until then it keeps the
   * process alive, so that what was given to the store is kept.
   */
  close(): void {
    this.#port.postMessage({ close: true } satisfies CloseMessage);
    this.#worker.ref();
    const timer = setTimeout(() => {
      this.#worker.unref();
      void this.#worker.terminate();
    }, GRACE_MS);
    timer.unref();
    void this.exit.then(() => clearTimeout(timer));
  }

  /** Gives the port back, after the thread has ended. */
  release(): void {
    this.#port.close();
  }
}
