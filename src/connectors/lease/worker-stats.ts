import type { Consumer } from './consumer/consumer.js';
import type { Link, LinkStats } from './link/link.js';
import type { Producer } from './producer/producer.js';
import type { Post } from './wire/post.js';

/** What is known of a peer whose leases are read. */
export interface PeerStats {
  readonly address: string;
  readonly state: 'calling' | 'ready' | 'refused' | 'dead';
  /** Why it is refused, or what was wrong last; empty = nothing. */
  readonly reason: string;
  /** How its bytes come. */
  readonly way: 'memory' | 'messages';
  /** Milliseconds since something came from it. */
  readonly silentMs: number;
  /** Requests that want something of it now. */
  readonly requests: number;
}

/** What a `LeaseWorker` has done so far. Plain data. */
export interface LeaseWorkerStats {
  /** Leases that this side granted. */
  readonly leases: {
    /** That are not over now, those that wait for a step included. */
    readonly open: number;
    /** Granted so far. */
    readonly granted: number;
    /** Ended by a read. */
    readonly read: number;
    /** Given back by the peer, unread. */
    readonly released: number;
    /** Ended by time. */
    readonly expired: number;
    /** Ended since the request's client had gone. */
    readonly cancelled: number;
    /** Never granted, or ended, since the KV was not there. */
    readonly failed: number;
    /** Leases that peers spoke of before they were granted, now. */
    readonly early: number;
    /** Reads of peers that are open now. */
    readonly readings: number;
  };
  /** Reads of this side. */
  readonly reads: {
    readonly open: number;
    readonly ok: number;
    /** Refused by the peer: the lease was over. */
    readonly refused: number;
    /** Ended otherwise: the peer died, the request was aborted, or a copy failed. */
    readonly failed: number;
    /** Leases that are kept alive, or were not given back yet, now. */
    readonly watched: number;
  };
  /** Reads by the way their bytes took, and bytes. */
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
  /** How often a peer was given up, was back, was refused, or was forgotten. */
  readonly peerEvents: {
    readonly deaths: number;
    readonly returns: number;
    readonly refused: number;
    readonly reaped: number;
  };
  /** Foreign messages that changed nothing. */
  readonly ignored: {
    /** That made no sense. */
    readonly malformed: number;
    /** Of a peer that has no session, or of another life of it. */
    readonly strangers: number;
    /** About a read that is over, or that does not wait for it. */
    readonly late: number;
    /** Pieces that could not be sent. */
    readonly dropped: number;
    /** That were good, and could not be carried out. */
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
