import type { Writable } from 'node:stream';

/** The streams and signals of a command. A process passes its own, a test passes others. */
export interface Io {
  /** Results only. */
  stdout: { write(text: string): unknown };
  /** Progress, notes and errors. */
  stderr: Writable & { isTTY?: boolean };
  /** The words in front of options that run `replay` again, ready to paste into a shell. */
  again: string;
  /** Aborted when the user interrupts. */
  signal: AbortSignal;
  /**
   * From now on an interrupt ends the process at once. Called before work that never looks at
   * `signal`. Such work leaves nothing behind when it is killed.
   */
  passInterrupts?(): void;
}

/** The call of a command. */
export interface Invocation {
  io: Io;
  /** The whole command line. */
  args: readonly string[];
}

/** A command with all its input, ready to run. It returns the exit code. */
export type Job = () => Promise<number>;

/** Exit codes of the command line. */
export const ExitCode = {
  ok: 0,
  /** The command failed while it ran. */
  failed: 1,
  /** Bad command line or unusable trace: nothing ran. */
  usage: 2,
  /** A repeated log led to other decisions. */
  differs: 3,
  /** Interrupted; the figures so far were printed, marked incomplete. */
  interrupted: 130,
} as const;
