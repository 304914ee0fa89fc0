import type { PipelineMessage } from '../transport/messages.js';
import { Inbox, type InboxParts } from './inbox.js';
import { Outbox } from './outbox.js';
import type { RedisPartyStats } from './party-stats.js';

/** One party of this process: an outbox and an inbox. */
export class Party {
  readonly #inbox: Inbox;
  readonly #outbox: Outbox;
  readonly #key: string;
  /** Whether the party leaves nothing on the server, because its name is never used again. */
  readonly #isPassing: boolean;
  readonly #timer: NodeJS.Timeout;
  #closing: Promise<void> | null = null;

  constructor(parts: InboxParts) {
    const { key, name, settings } = parts;
    this.#key = key;
    this.#isPassing = !name.startsWith('stage/');
    this.#outbox = new Outbox(parts);
    this.#inbox = new Inbox(
      parts,
      () => this.#outbox.open(),
      () => this.#outbox.discard(),
    );
    this.#timer = setInterval(() => this.#tidy(), settings.ttlMs / 3).unref();
  }

  /** See `Connection.send`. */
  send(to: string, message: PipelineMessage): string | null {
    return this.#outbox.send(to, message);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  stats(): RedisPartyStats {
    const lines = [this.#outbox.line, this.#inbox.line];
    const [toSend, toRead] = lines;
    return {
      isConnected: lines.every(({ isConnected }) => isConnected),
      isReplaced: this.#inbox.isReplaced,
      ...this.#outbox.counts,
      ...this.#inbox.counts,
      connections: toSend.numConnections + toRead.numConnections,
      lastError: this.#outbox.lastRefusal ?? toSend.lastError ?? toRead.lastError,
    };
  }

  #tidy(): void {
    if (!this.#inbox.isReplaced) this.#outbox.renew(this.#key);
    this.#inbox.tidy();
    this.#outbox.tidy();
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#inbox.close();
    const removes = this.#isPassing && !this.#inbox.isReplaced;
    await this.#outbox.close(removes ? this.#key : null);
  }
}
