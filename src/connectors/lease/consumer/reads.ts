import type { TransferReport, WorkerStep } from '../../../scheduler/connector/connector.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { KvMemory } from '../../base/kv-memory.js';
import type { Answer } from '../wire/messages.js';
import type { LoadOrder } from '../wire/orders.js';
import type { Staging } from '../wire/staging.js';
import type { Peer } from './peer.js';
import type { Peers } from './peers.js';
import { StreamedRead } from './streamed-read.js';
import type { Read } from './watch.js';
import type { Watches } from './watches.js';

/** Settings of `Reads`. */
export interface ReadsOptions {
  readonly memory: KvMemory;
  readonly staging: Staging;
  /** Life of this worker. The names of its reads begin with it. */
  readonly life: string;
  readonly now: () => number;
  readonly retryMs: number;
  readonly peerTimeoutMs: number;
}

/**
 * The reads of one worker. A read is announced and copied; it counts only if the peer confirms that
 * the lease was valid until then. A request therefore never gets wrong KV from a lease that ended,
 * or from a peer that died, stalled or restarted.
 *
 * Invariant: a read is in `#reads` until it is reported, once. By then none of its copies writes.
 */
export class Reads {
  readonly counts = {
    ok: 0,
    refused: 0,
    failed: 0,
    late: 0,
    mapped: 0,
    streamed: 0,
    bytesMapped: 0,
    bytesStreamed: 0,
  };
  readonly #options: ReadsOptions;
  readonly #peers: Peers;
  readonly #watches: Watches;
  readonly #reads = new Map<string, Read>();
  readonly #streams = new Map<Read, StreamedRead>();
  #numReads = 0;
  #received: TransferReport[] = [];
  #failed: TransferReport[] = [];

  constructor(options: ReadsOptions, peers: Peers, watches: Watches) {
    this.#options = options;
    this.#peers = peers;
    this.#watches = watches;
    watches.onGone = (read) => this.fail(read);
  }

  /** Number of reads that are not over. */
  get size(): number {
    return this.#reads.size;
  }

  get hasReports(): boolean {
    return this.#received.length > 0;
  }

  /** Begins a load by announcing the read. */
  begin(order: LoadOrder, { step, notBefore }: WorkerStep, now: number): void {
    const { handle } = order;
    const watch = this.#watches.get(handle);
    if (watch?.state !== 'alive' || watch.peer.state === 'dead' || watch.peer.state === 'refused') {
      this.counts.failed++;
      this.#report({ handle, step, declined: true }, false);
      if (watch !== undefined) this.#watches.leave(watch, now);
      return;
    }
    const transfer = `${this.#options.life}.${++this.#numReads}`;
    const times = { askedAt: now, movedAt: now };
    const read: Read = {
      transfer,
      watch,
      order,
      step,
      notBefore,
      ...times,
      phase: 'opening',
      isDeclined: false,
      numCopies: 0,
      stop: null,
    };
    watch.state = 'reading';
    watch.read = read;
    this.#reads.set(transfer, read);
    this.#ask(read, now);
  }

  /** The peer has named the blocks: begins to copy them. */
  opened(peer: Peer, { transfer, blocks: lists, fewest, most }: Answer & { readonly kind: 'opened' }): void {
    const read = this.#at(peer, transfer, 'opening');
    if (read === null) return;
    const { firsts, blocks, numTokens } = read.order;
    const parts = blocks.map((own, group) =>
      (lists[group] ?? []).slice(firsts[group], firsts[group] + own.length),
    );
    const isWhole =
      lists.length === blocks.length &&
      // The reader does not trust the client's params about the extent.
      numTokens >= fewest &&
      numTokens <= most &&
      // Block 0 is the null block. A block that the other side has released cannot be read.
      parts.every((part, i) => part.length === blocks[i].length && !part.includes(0));
    if (!isWhole) {
      this.fail(read);
      return;
    }
    read.phase = 'copying';
    read.movedAt = this.#options.now();
    // At a block boundary, a window of one token needs no block. The peer must only confirm that
    // the tokens were computed.
    if (blocks.every(({ length }) => length === 0)) this.#askWhether(read);
    else if (peer.source !== null) this.#copy(read, Int32Array.from(parts.flat()));
    else this.#stream(read, lists);
  }

  /** Bytes of a piece arrived. */
  arrived(peer: Peer, transfer: string, at: number, payload: Uint8Array | undefined): void {
    const read = this.#at(peer, transfer, 'copying');
    if (read === null) return;
    const { bytesPerBlock } = this.#options.memory.kv;
    const stream = this.#streams.get(read);
    this.#try(read, () => {
      if (payload === undefined || stream?.receive(at, payload, bytesPerBlock) !== true) this.counts.late++;
      else {
        this.counts.bytesStreamed += payload.byteLength;
        read.movedAt = this.#options.now();
      }
    });
  }

  /** The lease was valid until the confirmation, so the read counts. */
  confirmed(peer: Peer, transfer: string): void {
    const read = this.#at(peer, transfer, 'confirming');
    if (read === null) return;
    const { handle, blocks } = read.order;
    this.#options.memory.adopt?.(handle, joined(blocks));
    this.counts.ok++;
    this.#forget(read);
    this.#watches.drop(read.watch);
    this.#report({ handle, step: read.step }, true);
  }

  /** The peer refuses the read. */
  closed(peer: Peer, transfer: string, reason: string): void {
    const read = this.#reads.get(transfer);
    if (read?.watch.peer !== peer || read.phase === 'failed') {
      this.counts.late++;
      return;
    }
    peer.reason = reason;
    this.fail(read, true);
  }

  /** Nothing of a read counts. The read is over when none of its copies writes any more. */
  fail(read: Read, isRefused = false): void {
    if (read.phase === 'failed') return;
    this.counts[isRefused ? 'refused' : 'failed']++;
    read.isDeclined = read.phase === 'opening';
    read.phase = 'failed';
    read.stop?.();
    if (read.numCopies === 0) this.#endFailed(read);
  }

  failAll(): void {
    for (const read of [...this.#reads.values()]) this.fail(read);
  }

  /** Repeats unanswered questions, and fails reads that make no progress. */
  tick(now: number): void {
    const { retryMs, peerTimeoutMs } = this.#options;
    for (const [read, stream] of this.#streams) {
      this.#try(read, () => stream.feed(now));
      // The read waits for staging slots of this side, not for the peer.
      if (!stream.isAsking) read.movedAt = now;
    }
    for (const read of this.#reads.values()) {
      if (read.phase === 'failed') continue;
      const isStuck =
        read.numCopies === 0 && now - read.movedAt > Math.max(read.watch.leaseMs, peerTimeoutMs);
      if (isStuck) this.fail(read);
      else if (read.phase === 'copying') this.#streams.get(read)?.askAgain(now, peerTimeoutMs / 3);
      else if (now - read.askedAt >= retryMs) this.#ask(read, now);
    }
  }

  /**
   * Drains the loads that ended since the last call: all of them, and the failed ones among them.
   */
  drainReports(): { received: readonly TransferReport[]; failed: readonly TransferReport[] } {
    const reports = { received: this.#received, failed: this.#failed };
    if (this.#received.length > 0) this.#received = [];
    if (this.#failed.length > 0) this.#failed = [];
    return reports;
  }

  /** Copies from the mapped memory of the peer. */
  #copy(read: Read, sources: Int32Array): void {
    const { source } = read.watch.peer;
    const blocks = joined(read.order.blocks);
    if (source === null || sources.some((block) => block >= source.numBlocks)) {
      this.fail(read);
      return;
    }
    this.counts.mapped++;
    this.#try(read, () => {
      const job = source.load(read.order.handle, sources, blocks, read.notBefore, (verdict) => {
        this.counts.bytesMapped += blocks.length * this.#options.memory.kv.bytesPerBlock;
        this.#copied(read, verdict === Verdict.ok);
        this.#askWhether(read);
      });
      read.numCopies++;
      read.stop = () => source.cancel(job);
    });
  }

  /** Requests the bytes by messages. */
  #stream(read: Read, lists: readonly (readonly number[])[]): void {
    this.counts.streamed++;
    const { staging, now } = this.#options;
    const { peer } = read.watch;
    const lengths = lists.map(({ length }) => length);
    const stream = new StreamedRead(read, lengths, staging, {
      fetch: ({ transfer }, at, count) =>
        this.#peers.send(peer, { kind: 'fetch', transfer, at, count }, now(), true),
      copied: (_, isGood) => this.#copied(read, isGood),
      done: () => this.#askWhether(read),
    });
    read.stop = () => stream.stop();
    this.#streams.set(read, stream);
    this.#try(read, () => stream.feed(now()));
  }

  /** Carries out a part of a read. If it throws, only this read fails. */
  #try(read: Read, act: () => void): void {
    try {
      act();
    } catch {
      this.fail(read);
    }
  }

  /** A copy of this side is over. */
  #copied(read: Read, isGood: boolean): void {
    read.numCopies--;
    read.movedAt = this.#options.now();
    if (read.phase === 'failed') this.#endFailed(read);
    else if (!isGood) this.fail(read);
  }

  /** All bytes are copied: asks the peer whether they count. */
  #askWhether(read: Read): void {
    if (read.phase === 'failed') return;
    read.phase = 'confirming';
    this.#ask(read, this.#options.now());
  }

  #endFailed(read: Read): void {
    if (read.numCopies > 0 || !this.#reads.has(read.transfer)) return;
    this.#forget(read);
    read.watch.read = null;
    this.#watches.leave(read.watch, this.#options.now());
    this.#report({ handle: read.order.handle, step: read.step, declined: read.isDeclined }, false);
  }

  #forget(read: Read): void {
    this.#reads.delete(read.transfer);
    this.#streams.delete(read);
  }

  #report(report: TransferReport, isGood: boolean): void {
    this.#received.push(report);
    if (!isGood) this.#failed.push(report);
  }

  #ask(read: Read, now: number): void {
    read.askedAt = now;
    const { transfer, watch } = read;
    const { settings } = this.#watches;
    if (read.phase === 'confirming') this.#peers.send(watch.peer, { kind: 'confirm', transfer }, now, true);
    else this.#peers.send(watch.peer, { kind: 'open', settings, key: watch.key, transfer }, now, true);
  }

  /**
   * Returns the read with this name, if it belongs to this peer and is in this phase. Otherwise
   * counts the answer as late.
   */
  #at(peer: Peer, transfer: string, phase: Read['phase']): Read | null {
    const read = this.#reads.get(transfer);
    if (read?.watch.peer === peer && read.phase === phase) return read;
    this.counts.late++;
    return null;
  }
}

function joined(lists: readonly Int32Array[]): Int32Array {
  return lists.length === 1 ? lists[0] : Int32Array.from(lists.flatMap((list) => [...list]));
}
