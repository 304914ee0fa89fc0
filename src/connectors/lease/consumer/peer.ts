import type { Source } from './mapped-source.js';

/**
 * A worker of another engine, as the side that reads its leases knows it.
 *
 * `calling`: it was greeted, and has not answered. `ready`: a session goes on. `refused`: it does not fit. `dead`: it has
 * been silent for too long. Every state ends with a word of the peer; a session goes on after any silence, as long as both
 * sides live.
 */
export interface Peer {
  readonly address: string;
  state: 'calling' | 'ready' | 'refused' | 'dead';
  /** Life of the peer that the session is with; empty = none yet. */
  life: string;
  /** Why it was refused, or what its silence was about. */
  reason: string;
  /** When it was sent something that it has not answered; Infinity = nothing. */
  askedAt: number;
  heardAt: number;
  helloAt: number;
  beatAt: number;
  /** Number of the last greeting that was answered: a late answer to an earlier one says nothing. */
  greeted: number;
  /** The peer's KV memory, mapped; null = its bytes come by messages. */
  source: Source | null;
  /** Watches and reads that name the peer. */
  numUses: number;
}

/** A peer that nothing is known of. */
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
