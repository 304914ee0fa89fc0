// The counts of a party, apart from it so that its types need no package.

/** Counts of one party of a `RedisTransport`, since it joined. Plain data. */
export interface RedisPartyStats {
  /** Whether it can send and read now. */
  readonly isConnected: boolean;
  /**
   * Whether another process has joined under its name. It then neither sends nor reads any more.
   */
  readonly isReplaced: boolean;
  /** Messages that the server has accepted, and messages that were handed over. */
  readonly sent: number;
  readonly received: number;
  /** Messages that wait for the server, and their bytes. */
  readonly queued: number;
  readonly queuedBytes: number;
  /** Messages that were not sent because the queue was full, or the party had left. */
  readonly dropped: number;
  /**
   * Messages that were not sent because they were too large, could not be packed, or were refused
   * by the server.
   */
  readonly unsendable: number;
  /** Messages to clients that had gone. */
  readonly undeliverable: number;
  /** Messages that arrived again after a broken connection, and were dropped. */
  readonly doubled: number;
  /** Messages that never arrived, and the number of calls of `Mailbox.lost`. */
  readonly missing: number;
  readonly losses: number;
  /** Messages of former processes of their senders, which were dropped. */
  readonly stale: number;
  /** Skipped entries: damaged, of another version, or of another program. */
  readonly foreign: number;
  /** Entries that a former process of this name received and did not finish. They were removed. */
  readonly inherited: number;
  /** Connections that worked. Without failures there are two: one to send and one to read. */
  readonly connections: number;
  /** The last error of the server or of a message; null: none. */
  readonly lastError: string | null;
}
