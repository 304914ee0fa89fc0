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
 * A client of a thread, and the messages to and from it. It has no event handlers for messages. The
 * caller polls for answers at any time, even without a turn of the event loop.
 */
export class ThreadLink implements StoreLink {
  readonly exit: Promise<void>;
  readonly #host: ThreadHost;
  readonly #failed: (error: string) => void;
  readonly #port: MessagePort;
  /** Milliseconds that the thread has to end by itself. A disk is slow, but answers in the end. */
  readonly #graceMs: number;
  readonly #posted = new Int32Array(new SharedArrayBuffer(8));
  #numTaken = 0;
  /** The client ends, and the thread continues for others. */
  #endsAlone = false;

  /**
   * @param client the description of the client for the thread
   * @param failed called with an error of the thread before it ends
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

  /** The thread may be writing the job's places now. */
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
