import type { Source } from './mapped-source.js';

/**
 * A worker of another engine, as seen by the worker that reads its leases.
 *
 * `calling`: the peer was greeted and has not answered. `ready`: a session is open. `refused`: the
 * peer's settings do not match. `dead`: the peer has been silent for too long. Any message of the
 * peer ends each of these states. A session survives any silence while both sides live.
 */
export interface Peer {
  readonly address: string;
  state: 'calling' | 'ready' | 'refused' | 'dead';
  /** Life of the peer of this session; empty = no session yet. */
  life: string;
  /** Why the peer was refused, or which question it left unanswered. */
  reason: string;
  /** When the oldest unanswered message was sent to the peer; Infinity = none. */
  askedAt: number;
  heardAt: number;
  helloAt: number;
  beatAt: number;
  /**
   * Number of the last greeting that was answered. Late answers to earlier greetings are ignored.
   */
  greeted: number;
  /** The peer's KV memory, mapped; null = its bytes arrive in messages. */
  source: Source | null;
  /** Number of watches and reads that name the peer. */
  numUses: number;
}

/** Makes a peer of which nothing is known. */
export function newPeer(address: string, now: number): Peer {
  return {
    ...{ address, state: 'calling', life: '', reason: '', askedAt: Number.POSITIVE_INFINITY, heardAt: now },
    ...{
      helloAt: Number.NEGATIVE_INFINITY,
      beatAt: Number.NEGATIVE_INFINITY,
      source: null,
      numUses: 0,
      greeted: 0,
    },
  };
}
