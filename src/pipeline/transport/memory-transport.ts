import { badArgument, show } from '../../base/errors.js';
import type { PipelineMessage } from './messages.js';
import type { Connection, Mailbox, Transport } from './transport.js';

interface Letter {
  readonly to: string;
  readonly message: PipelineMessage;
}

/**
 * Carries messages inside one process: the default. Messages are delivered in the order of sending,
 * in a microtask, so no party is called from inside its own call. Contents are not copied.
 */
export class MemoryTransport implements Transport {
  readonly isLocal = true;
  readonly #mailboxes = new Map<string, Mailbox>();
  #letters: Letter[] = [];
  #isDue = false;
  #numDropped = 0;

  /** Number of messages to unknown names. */
  get numDropped(): number {
    return this.#numDropped;
  }

  join(name: string, mailbox: Mailbox): Connection {
    if (this.#mailboxes.has(name)) throw badArgument('name', show(name), 'a name that is not in use');
    this.#mailboxes.set(name, mailbox);
    return {
      send: (to, message) => {
        this.#post({ to, message });
        return null;
      },
      close: () => {
        if (this.#mailboxes.get(name) === mailbox) this.#mailboxes.delete(name);
        return Promise.resolve();
      },
    };
  }

  #post(letter: Letter): void {
    this.#letters.push(letter);
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => this.#deliver());
  }

  #deliver(): void {
    this.#isDue = false;
    const letters = this.#letters;
    this.#letters = [];
    for (const { to, message } of letters) {
      const mailbox = this.#mailboxes.get(to);
      if (mailbox === undefined) this.#numDropped++;
      else mailbox.receive(message);
    }
  }
}
