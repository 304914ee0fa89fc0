/** Takes a message that a peer sent. It must not throw. */
export type Receive = (from: string, frames: readonly Uint8Array[]) => void;

/** What a link has done so far. Plain data. */
export interface LinkStats {
  readonly sent: number;
  readonly received: number;
  /** Messages that could not be handed to the transport: the peer is unknown, or its queue is full. */
  readonly undeliverable: number;
  /** Bytes of all frames sent. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/**
 * Carries messages between the workers of engines. A message is a list of frames; one may be lost, come twice, late, or
 * behind a later one: a lease connector expects that. It is never cut, and never mixed with another one.
 *
 * A peer has a name that is good at this end of the link alone: its address if this end has called it, otherwise a name
 * that the link makes up. A link whose peer died reaches it again by itself when the peer is back.
 */
export interface Link {
  /** Where peers reach this link. */
  readonly address: string;
  /** Begins to receive: `receive` is called once for each message, on this thread, and never inside `send`. */
  listen(receive: Receive): void;
  /**
   * Sends a message, or drops it. It never throws and never waits.
   * @param to a peer that has sent something, or an address
   * @param frames not to be changed afterwards
   * @returns false if it was dropped; true says nothing about its arrival
   */
  send(to: string, frames: readonly Uint8Array[]): boolean;
  /** Drops what is kept for a peer. If it sends again, or is sent to again, it is a new one. */
  forget(peer: string): void;
  stats(): LinkStats;
  /** Ends the link; nothing is received any more. Idempotent. */
  close(): void;
}
