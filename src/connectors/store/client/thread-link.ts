import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import {
  type AnswerMessage,
  type ClientMessage,
  type CloseMessage,
  type JobMessage,
  Posted,
} from './messages.js';
import { GRACE_MS, type StoreLink } from './store-link.js';
import type { ThreadHost } from './thread-host.js';

/**
 * A client of a thread, and the messages to and from it. It has no event handlers for messages: who wants an
 * answer looks for it, at any time and also without a turn of the event loop.
 */
export class ThreadLink implements StoreLink {
  readonly exit: Promise<void>;
  readonly #host: ThreadHost;
  readonly #failed: (error: string) => void;
  readonly #port: MessagePort;
  /** Milliseconds that the thread is given to end by itself. A disk takes its time, and answers at last. */
  readonly #graceMs: number;
  readonly #posted = new Int32Array(new SharedArrayBuffer(8));
  #numTaken = 0;
  /** The client ends, and the thread goes on for others. */
  #endsAlone = false;

  /**
   * @param client what the thread is told of the client
   * @param failed told what an error of the thread was, before it ends
   */
  constructor(
    host: ThreadHost,
    client: Omit<ClientMessage, 'port' | 'posted'>,
    failed: (error: string) => void,
  ) {
    const { port1, port2 } = new MessageChannel();
    this.#host = host;
    this.#failed = failed;
    this.#port = port1;
    this.#graceMs = client.store.kind === 'slots' ? 5 * GRACE_MS : GRACE_MS;
    this.exit = new Promise((resolve) => {
      void host.exit.then(resolve);
      // A thread that dies closes its ports before it has ended.
      port1.once('close', () => this.#endsAlone && resolve());
    });
    const posted = this.#posted.buffer as SharedArrayBuffer;
    host.add({ ...client, port: port2, posted }, port2, failed);
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
    const isLast = this.#host.remove(this.#failed, this.exit, this.#graceMs);
    this.#endsAlone = !isLast;
    this.#port.postMessage({ close: true, isLast } satisfies CloseMessage);
  }

  release(): void {
    this.#port.close();
  }
}
