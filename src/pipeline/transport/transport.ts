import { badArg, isObject } from '../../base/checks.js';
import type { PipelineMessage } from './messages.js';

/** A party's callbacks for incoming messages. Neither method may throw. */
export interface Mailbox {
  receive(message: PipelineMessage): void;
  /**
   * Messages of a party, or of all parties (null), may have been lost.
   * @param why reason, as text
   */
  lost(from: string | null, why: string): void;
}

/** A party's place in a transport. */
export interface Connection {
  /**
   * Sends a message, and never waits or throws. An undeliverable message is kept for a while, or is
   * lost. The transport owns the message from now on. No mailbox is called from inside `send`.
   * @returns null, or why this message can never be sent. It is then dropped, its receiver misses
   * nothing, and the sender ends its request
   */
  send(to: string, message: PipelineMessage): string | null;
  /** Leaves the transport, after all queued messages were sent. Idempotent. */
  close(): Promise<void>;
}

/**
 * Carries messages between the stages of a pipeline and the parties that submit requests. Each
 * party has a name.
 *
 * Messages of one sender to one receiver arrive once and in order. If some of them were lost, the
 * receiver's `Mailbox.lost` is called. A message to an unknown name is kept until a party joins
 * under it, or is dropped.
 */
export interface Transport {
  /**
   * Joins under a name.
   * @throws ERR_BLOCKSTEP_BAD_ARG if a party of this process has the name in this transport already
   */
  join(name: string, mailbox: Mailbox): Connection;
  /**
   * Whether all parties are in this process, and no message is ever lost. A pipeline that has all
   * its stages itself then needs no liveness checks.
   */
  readonly isLocal: boolean;
}

/** The name under which a stage joins. */
export function stageParty(name: string): string {
  return `stage/${name}`;
}

/** Checks that a value can be a transport. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkTransport(value: unknown): Transport {
  const transport = value as Transport;
  if (isObject(value) && typeof transport.join === 'function' && typeof transport.isLocal === 'boolean')
    return transport;
  throw badArg('transport', value, 'a transport: an object with a function join, and isLocal');
}
