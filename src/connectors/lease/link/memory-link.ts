import { MessageChannel } from 'node:worker_threads';
import { badArg, checkName } from '../../../base/checks.js';
import { knownNames } from '../../../base/known-names.js';
import { checkOptions } from '../../base/option-checks.js';
import type { Link, LinkStats, Receive } from './link.js';

/** A message under way. */
export interface Parcel {
  readonly from: string;
  readonly to: string;
  readonly frames: readonly Uint8Array[];
}

/** Options of a `MemoryHub`. */
export interface MemoryHubOptions {
  /**
   * Takes every parcel in place of the hub, which then delivers none by itself. Call
   * `hub.deliver(parcel)` in any order, and as often as the parcel is to arrive. For simulations.
   */
  carry?: (parcel: Parcel) => void;
}

const OPTIONS = knownNames<MemoryHubOptions>('the options of a MemoryHub', { carry: true });

/** Maximum number of messages that wait for delivery; further messages are dropped. */
const MAX_WAITING = 65_536;

/**
 * Joins links of one process. A message is delivered in a later turn of the event loop, in the
 * order of `send`. Like a server, an open link keeps the process alive, unless a simulation carries
 * the messages.
 */
export class MemoryHub {
  readonly #links = new Map<string, MemoryLink>();
  readonly #carry: ((parcel: Parcel) => void) | undefined;
  #waiting: Parcel[] = [];
  /** Keeps the process alive while a link is open. */
  #alive: MessageChannel | null = null;

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: MemoryHubOptions = {}) {
    checkOptions(options, OPTIONS);
    const { carry } = options;
    if (carry !== undefined && typeof carry !== 'function') throw badArg('carry', carry, 'a function');
    this.#carry = carry;
  }

  /**
   * Makes a link.
   * @param address its name, such as `prefill`. An address can be reused after its link was closed
   * @throws ERR_BLOCKSTEP_BAD_ARG, also if another link has the address
   */
  link(address: string): MemoryLink {
    checkName('address', address, 1);
    if (this.#links.has(address))
      throw badArg('address', address, 'an address that no open link of the hub has');
    const link = new MemoryLink(address, this);
    this.#links.set(address, link);
    if (this.#carry === undefined && this.#alive === null) {
      this.#alive = new MessageChannel();
      this.#alive.port1.ref();
    }
    return link;
  }

  /**
   * Delivers a parcel now. @returns false if no link has its address, or the link does not listen
   * yet
   */
  deliver(parcel: Parcel): boolean {
    return this.#links.get(parcel.to)?.deliver(parcel) ?? false;
  }

  /** @internal */
  carry(parcel: Parcel): boolean {
    if (this.#carry !== undefined) {
      this.#carry(parcel);
      return true;
    }
    if (!this.#links.has(parcel.to) || this.#waiting.length >= MAX_WAITING) return false;
    if (this.#waiting.length === 0) setImmediate(this.#deliverAll);
    this.#waiting.push(parcel);
    return true;
  }

  /** @internal */
  drop(link: MemoryLink): void {
    if (this.#links.get(link.address) === link) this.#links.delete(link.address);
    if (this.#links.size > 0) return;
    this.#alive?.port1.close();
    this.#alive = null;
  }

  readonly #deliverAll = (): void => {
    const parcels = this.#waiting;
    this.#waiting = [];
    for (const parcel of parcels) this.deliver(parcel);
  };
}

/** A link to the other links of the same `MemoryHub`, in one process. */
export class MemoryLink implements Link {
  readonly address: string;
  readonly #hub: MemoryHub;
  readonly #stats = { sent: 0, received: 0, undeliverable: 0, bytesSent: 0, bytesReceived: 0 };
  #receive: Receive | null = null;
  #closed = false;

  /** @internal Call `MemoryHub.link`. */
  constructor(address: string, hub: MemoryHub) {
    this.address = address;
    this.#hub = hub;
  }

  listen(receive: Receive): void {
    this.#receive = receive;
  }

  send(to: string, frames: readonly Uint8Array[]): boolean {
    const isTaken = !this.#closed && this.#hub.carry({ from: this.address, to, frames });
    if (isTaken) {
      this.#stats.sent++;
      this.#stats.bytesSent += lengthOf(frames);
    } else this.#stats.undeliverable++;
    return isTaken;
  }

  forget(): void {
    // There is no state for a peer.
  }

  stats(): LinkStats {
    return { ...this.#stats };
  }

  close(): void {
    this.#closed = true;
    this.#receive = null;
    this.#hub.drop(this);
  }

  /** @internal */
  deliver({ from, frames }: Parcel): boolean {
    if (this.#receive === null) return false;
    this.#stats.received++;
    this.#stats.bytesReceived += lengthOf(frames);
    this.#receive(from, frames);
    return true;
  }
}

/** Returns the number of bytes in all frames of a message. */
export function lengthOf(frames: readonly Uint8Array[]): number {
  let sum = 0;
  for (const { byteLength } of frames) sum += byteLength;
  return sum;
}
