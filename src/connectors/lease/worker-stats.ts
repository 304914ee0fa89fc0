// The statistics of a worker.
import type { Consumer } from './consumer/consumer.js';
import type { Link, LinkStats } from './link/link.js';
import type { Producer } from './producer/producer.js';
import type { Post } from './wire/post.js';

/** Statistics of a peer whose leases are read. */
export interface PeerStats {
  readonly address: string;
  readonly state: 'calling' | 'ready' | 'refused' | 'dead';
  /** Why the peer is refused, or its last failure; empty = none. */
  readonly reason: string;
  /** The path that the peer's bytes take. */
  readonly way: 'memory' | 'messages';
  /** Milliseconds since the last message from the peer. */
  readonly silentMs: number;
  /** Requests that need the peer now. */
  readonly requests: number;
}

/** Statistics of a `LeaseWorker`. Plain data. */
export interface LeaseWorkerStats {
  /** Leases that this side granted. */
  readonly leases: {
    /** Leases that are not over now, including those that wait for a step. */
    readonly open: number;
    /** Leases granted so far. */
    readonly granted: number;
    /** Leases ended by a read. */
    readonly read: number;
    /** Leases given back by the peer, unread. */
    readonly released: number;
    /** Leases ended by time. */
    readonly expired: number;
    /** Leases ended because the request's client had gone. */
    readonly cancelled: number;
    /** Leases never granted, or ended, because the KV was not there. */
    readonly failed: number;
    /** Leases with early messages of peers, now. */
    readonly early: number;
    /** Reads of peers that are open now. */
    readonly readings: number;
  };
  /** Reads that this side makes. */
  readonly reads: {
    readonly open: number;
    readonly ok: number;
    /** Reads that the peer refused because the lease was over. */
    readonly refused: number;
    /** Reads that ended otherwise: the peer died, the request was aborted, or a copy failed. */
    readonly failed: number;
    /** Leases that are kept alive, or were not given back yet, now. */
    readonly watched: number;
  };
  /** Reads by the path of their bytes, and byte counts. */
  readonly ways: {
    readonly memory: number;
    readonly messages: number;
    readonly memoryBytes: number;
    readonly messageBytes: number;
    /** Bytes that this side sent to readers. */
    readonly sentBytes: number;
    /** Places of the staging arenas in use now. */
    readonly staged: number;
  };
  /** Sessions of peers that read this side's leases. */
  readonly sessions: { readonly open: number; readonly begun: number; readonly refused: number };
  readonly peers: readonly PeerStats[];
  /** How often peers were given up, came back, were refused, or were forgotten. */
  readonly peerEvents: {
    readonly deaths: number;
    readonly returns: number;
    readonly refused: number;
    readonly reaped: number;
  };
  /** Foreign messages that changed nothing. */
  readonly ignored: {
    /** Unreadable messages. */
    readonly malformed: number;
    /** Messages of a peer without a session, or of another life of the peer. */
    readonly strangers: number;
    /** Messages about a read that is over, or that does not wait for them. */
    readonly late: number;
    /** Pieces that could not be sent. */
    readonly dropped: number;
    /** Valid messages that could not be carried out. */
    readonly failed: number;
  };
  readonly link: LinkStats;
}

/** Reads the statistics of a worker. */
export function statsOf(
  producer: Producer,
  consumer: Consumer,
  post: Post,
  link: Link,
  now: number,
): LeaseWorkerStats {
  const { grants, counts: sender } = producer;
  const pieces = producer.pieces.counts;
  const { watches, reads, peers, staged } = consumer;
  const reader = reads.counts;
  const { deaths, returns, refused, reaped, unknown } = peers.counts;
  return {
    leases: { ...grants.counts, open: grants.size, early: grants.numEarly, readings: grants.numReadings },
    reads: {
      open: reads.size,
      ok: reader.ok,
      refused: reader.refused,
      failed: reader.failed,
      watched: watches.size,
    },
    ways: {
      memory: reader.mapped,
      messages: reader.streamed,
      memoryBytes: reader.bytesMapped,
      messageBytes: reader.bytesStreamed,
      sentBytes: pieces.bytesSent,
      staged: staged + producer.staged,
    },
    sessions: { open: producer.numSessions, begun: sender.sessions, refused: sender.refusedPeers },
    peers: peers.list().map(({ address, state, reason, source, heardAt, numUses }) => ({
      ...{ address, state, reason, way: source === null ? 'messages' : 'memory' },
      ...{ silentMs: now - heardAt, requests: numUses },
    })),
    peerEvents: { deaths, returns, refused, reaped },
    ignored: {
      malformed: post.numMalformed,
      strangers: sender.strangers + unknown,
      late: reader.late,
      dropped: pieces.dropped,
      failed: post.numFailed,
    },
    link: link.stats(),
  };
}
