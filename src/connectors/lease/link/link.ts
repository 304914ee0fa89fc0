/** Handles a message from a peer. It must not throw. */
export type Receive = (from: string, frames: readonly Uint8Array[]) => void;

/** Statistics of a link. Plain data. */
export interface LinkStats {
  readonly sent: number;
  readonly received: number;
  /**
   * Messages that could not be handed to the transport, because the peer is unknown or its queue is
   * full.
   */
  readonly undeliverable: number;
  /** Bytes of all frames sent. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/**
 * Carries messages between the workers of engines. A message is a list of frames. A message may be
 * lost, duplicated, late or reordered; a lease connector expects that. A message is never cut, and
 * never mixed with another message.
 *
 * A peer's name is valid only at this end of the link. The name is the peer's address if this end
 * called it; otherwise the link makes one up. If a peer dies and comes back, the link reconnects by
 * itself.
 */
export interface Link {
  /** The address at which peers reach this link. */
  readonly address: string;
  /**
   * Begins to receive. `receive` is called once for each message, on this thread, and never inside
   * `send`.
   */
  listen(receive: Receive): void;
  /**
   * Sends a message, or drops it. The call never throws and never waits.
   * @param to an address, or the name of a peer that has sent a message
   * @param frames not to be changed afterwards
   * @returns false if the message was dropped; true does not mean that it arrived
   */
  send(to: string, frames: readonly Uint8Array[]): boolean;
  /**
   * Drops the state kept for a peer. If messages come from it or go to it later, it counts as a new
   * peer.
   */
  forget(peer: string): void;
  stats(): LinkStats;
  /** Ends the link; nothing is received any more. Idempotent. */
  close(): void;
}
