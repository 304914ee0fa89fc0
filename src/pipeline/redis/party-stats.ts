/** Counts of one party of a `RedisTransport`, since it joined. Plain data. */
export interface RedisPartyStats {
  /** Whether it can send and read just now. */
  readonly isConnected: boolean;
  /** Whether another process has joined under its name: then it neither sends nor reads any more. */
  readonly isReplaced: boolean;
  /** Messages that the server has taken, and messages that were handed over. */
  readonly sent: number;
  readonly received: number;
  /** Messages that wait for the server, and their bytes. */
  readonly queued: number;
  readonly queuedBytes: number;
  /** Messages that were not sent: the queue was full, or the party had left. */
  readonly dropped: number;
  /** Messages that were not sent: too large, with something that cannot be packed, or refused by the server. */
  readonly unsendable: number;
  /** Messages to clients that had gone. */
  readonly undeliverable: number;
  /** Messages that came again after a broken connection, and were dropped. */
  readonly doubled: number;
  /** Messages that never came, and how often `Mailbox.lost` was called. */
  readonly missing: number;
  readonly losses: number;
  /** Messages of former processes of their senders, which were dropped. */
  readonly stale: number;
  /** What came and was skipped: damaged, of another version, or of somebody else. */
  readonly foreign: number;
  /** Entries that a former process of this name had and did not finish, which were removed. */
  readonly inherited: number;
  /** Connections that worked: two without trouble, one to send and one to read. */
  readonly connections: number;
  /** The last trouble with the server, or with a message, in words; null: none. */
  readonly lastError: string | null;
}
