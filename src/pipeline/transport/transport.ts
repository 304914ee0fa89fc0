import type { PipelineMessage } from './messages.js';

/** A party's own side: what is called when something comes for it. Neither method may throw. */
export interface Mailbox {
  receive(message: PipelineMessage): void;
  /**
   * Messages of a party, or of all (null), may have been lost.
   * @param why in words
   */
  lost(from: string | null, why: string): void;
}

/** A party's place in a transport. */
export interface Connection {
  /**
   * Sends a message, and never waits or throws: what cannot be delivered now is kept for a while, or is lost. The
   * message belongs to the transport from now on. No mailbox is called from inside of `send`.
   * @returns null; or why this message can never be sent, in words: then it is gone, its receiver misses nothing, and the sender ends
   * its request
   */
  send(to: string, message: PipelineMessage): string | null;
  /** Leaves the transport, after what was sent has gone out. Idempotent. */
  close(): Promise<void>;
}

/**
 * Carries messages between the stages of a pipeline and the parties that submit requests. A party is known by its name.
 *
 * Messages of one sender to one receiver arrive once and in order. If some of them were lost, the receiver's
 * `Mailbox.lost` is called. A message to a name that nobody has is kept until somebody has it, or is dropped.
 */
export interface Transport {
  /**
   * Joins under a name.
   * @throws ERR_BLOCKSTEP_BAD_ARG if a party of this process has the name in this transport already
   */
  join(name: string, mailbox: Mailbox): Connection;
  /** Whether all parties are in this process, and no message is ever lost: nobody need ask whether others live. */
  readonly isLocal: boolean;
}

/** The name under which a stage joins. */
export function stageParty(name: string): string {
  return `stage/${name}`;
}
