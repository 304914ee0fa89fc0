import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dealer, Router } from 'zeromq';
import { badArg, checkName } from '../../../base/checks.js';
import { BlockstepError, describeError } from '../../../base/errors.js';
import { knownNames } from '../../../base/known-names.js';
import { optionalPackage } from '../../../base/packages/optional-package.js';
import { checkOptions } from '../../base/option-checks.js';
import type { Link, LinkStats, Receive } from './link.js';
import { lengthOf } from './memory-link.js';

/** Options of a `ZmqLink`. */
export interface ZmqLinkOptions {
  /**
   * The address at which the link listens: `ipc://PATH`, or `tcp://ADDRESS:PORT`, with `*` for any
   * free port. Default: a socket in a new folder that only this user can enter. Every process that
   * reaches the address can read KV. Read docs/connectors.md before you bind anything but `ipc` and
   * loopback.
   */
  bind?: string;
  /**
   * The address that peers receive, if it differs from `bind`: for instance behind
   * `tcp://0.0.0.0:5600`, or behind address translation.
   */
  address?: string;
  /**
   * Whether the link may call an address that a request names. Such an address comes from a client.
   * Default: only `ipc` and loopback addresses.
   */
  mayConnect?: (address: string) => boolean;
}

const OPTIONS = knownNames<ZmqLinkOptions>('the options of a ZmqLink', {
  bind: true,
  address: true,
  mayConnect: true,
});
/** Maximum number of messages that wait to be sent to one peer; further messages are dropped. */
const HIGH_WATER = 4096;
/** Largest frame that is accepted, in bytes. */
const MAX_FRAME = 2 ** 30 + 2 ** 20;
/** How long messages may still be sent after `close`, in milliseconds. */
const LINGER_MS = 200;
/** Number of messages that are handled in one turn of the event loop. */
const BATCH = 256;
/** Maximum number of addresses that are called; further addresses are refused. */
const MAX_CALLED = 4096;
const LOCAL = /^(ipc:\/\/|tcp:\/\/(127\.\d+\.\d+\.\d+|localhost|\[::1\]):)/;
/** Prefix of the name of a peer that has called this end. */
const CALLER = 'caller:';

/**
 * A link over ZeroMQ between processes, on one machine or several. It needs the package `zeromq`. A
 * lost connection is restored without a limit of attempts. Meanwhile messages wait, and beyond a
 * limit they are dropped.
 */
export class ZmqLink implements Link {
  readonly address: string;
  readonly #router: Router;
  readonly #makeDealer: () => Dealer;
  readonly #mayConnect: (address: string) => boolean;
  /** A folder to remove at the end; empty = none. */
  readonly #folder: string;
  /** Sockets to peers that this end has called, by address. */
  readonly #called = new Map<string, Dealer>();
  readonly #stats = { sent: 0, received: 0, undeliverable: 0, bytesSent: 0, bytesReceived: 0 };
  #receive: Receive | null = null;
  #closed = false;

  // The constructor is private so that the declarations of the class need no types of an optional
  // package.
  private constructor(parts: {
    router: Router;
    makeDealer: () => Dealer;
    address: string;
    folder: string;
    mayConnect: (address: string) => boolean;
  }) {
    this.#router = parts.router;
    this.#makeDealer = parts.makeDealer;
    this.address = parts.address;
    this.#folder = parts.folder;
    this.#mayConnect = parts.mayConnect;
  }

  /**
   * Opens a link, and begins to listen at its address. Like a server, an open link keeps the
   * process alive.
   * @throws ERR_BLOCKSTEP_BAD_ARG, also if it cannot listen there; ERR_BLOCKSTEP_NO_PACKAGE without
   * `zeromq`
   */
  static async open(options: ZmqLinkOptions = {}): Promise<ZmqLink> {
    checkOptions(options, OPTIONS);
    const { bind, address, mayConnect = isLocal } = options;
    if (bind !== undefined && !/^(ipc|tcp):\/\/./.test(checkName('bind', bind, 1)))
      throw badArg('bind', bind, 'ipc://PATH or tcp://ADDRESS:PORT');
    if (address !== undefined) checkName('address', address, 1);
    if (typeof mayConnect !== 'function') throw badArg('mayConnect', mayConnect, 'a function');
    const zmq = await optionalPackage<typeof import('zeromq')>('zeromq', '^6.8.0', 'a ZmqLink');
    // ROUTER and DEALER sockets keep the name of a caller when it reconnects.
    const routingId = randomBytes(12).toString('hex');
    const common = {
      linger: LINGER_MS,
      sendTimeout: 0,
      sendHighWaterMark: HIGH_WATER,
      maxMessageSize: MAX_FRAME,
    };
    const router = new zmq.Router({ ...common, mandatory: true, handover: true });
    const makeDealer = () =>
      new zmq.Dealer({ ...common, routingId, reconnectInterval: 50, reconnectMaxInterval: 2000 });
    const folder = bind === undefined ? mkdtempSync(join(tmpdir(), 'blockstep-lease-')) : '';
    try {
      await router.bind(bind ?? `ipc://${join(folder, 'link')}`);
    } catch (error) {
      router.close();
      if (folder !== '') rmSync(folder, { recursive: true, force: true });
      const message = `bind must be an address that can be listened on, got ${bind}: ${describeError(error)}`;
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message, { cause: error });
    }
    return new ZmqLink({
      router,
      makeDealer,
      address: address ?? router.lastEndpoint ?? '',
      folder,
      mayConnect,
    });
  }

  listen(receive: Receive): void {
    this.#receive = receive;
    void this.#read(this.#router, null);
  }

  send(to: string, frames: readonly Uint8Array[]): boolean {
    if (this.#closed) return this.#drop();
    try {
      const sent = to.startsWith(CALLER)
        ? this.#router.send([Buffer.from(to.slice(CALLER.length), 'hex'), ...frames])
        : this.#call(to)?.send([...frames]);
      if (sent === undefined) return this.#drop();
      // The connection may be full or gone. The message is then dropped, as if it were lost.
      sent.catch(() => {
        this.#stats.undeliverable++;
      });
    } catch {
      return this.#drop();
    }
    this.#stats.sent++;
    this.#stats.bytesSent += lengthOf(frames);
    return true;
  }

  forget(peer: string): void {
    this.#called.get(peer)?.close();
    this.#called.delete(peer);
  }

  stats(): LinkStats {
    return { ...this.#stats };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#receive = null;
    for (const dealer of this.#called.values()) dealer.close();
    this.#called.clear();
    this.#router.close();
    if (this.#folder !== '') rmSync(this.#folder, { recursive: true, force: true });
  }

  /**
   * Returns the socket to an address, and calls the address if necessary. Null: the address is
   * invalid or must not be called.
   */
  #call(address: string): Dealer | null {
    const known = this.#called.get(address);
    if (known !== undefined) return known;
    if (this.#called.size >= MAX_CALLED || this.#mayConnect(address) !== true) return null;
    const dealer = this.#makeDealer();
    try {
      dealer.connect(address);
    } catch {
      dealer.close();
      return null;
    }
    this.#called.set(address, dealer);
    void this.#read(dealer, address);
    return dealer;
  }

  /**
   * Handles messages until the socket is closed. @param address null: the first frame names the
   * sender
   */
  async #read(socket: Router | Dealer, address: string | null): Promise<void> {
    let left = BATCH;
    try {
      for await (const all of socket) {
        const [caller] = all;
        const frames = address === null ? all.slice(1) : all;
        const from = address ?? CALLER + caller.toString('hex');
        this.#stats.received++;
        this.#stats.bytesReceived += lengthOf(frames);
        this.#receive?.(from, frames);
        // A flood of messages must not delay steps and timers.
        if (--left > 0) continue;
        left = BATCH;
        await nextTurn();
      }
    } catch {
      // The socket was closed.
    }
  }

  #drop(): boolean {
    this.#stats.undeliverable++;
    return false;
  }
}

function isLocal(address: string): boolean {
  return LOCAL.test(address);
}
