import type { Writable } from 'node:stream';

/** The streams and signals that a command uses. A process hands in its own, a test hands in others. */
export interface Io {
  /** Results only. */
  stdout: { write(text: string): unknown };
  /** Progress, notes and errors. */
  stderr: Writable & { isTTY?: boolean };
  /** What the user types in front of options to run `replay` again, as it can be pasted into a shell. */
  again: string;
  /** Aborted when the user interrupts. */
  signal: AbortSignal;
  /**
   * From now on an interrupt ends the process at once. Called before work that never looks at `signal`; such work leaves
   * nothing behind when it is killed.
   */
  passInterrupts?(): void;
}

/** What a command was called with. */
export interface Invocation {
  io: Io;
  /** The whole command line. */
  args: readonly string[];
}

/** A command with all that it needs, ready to run. It returns the exit code. */
export type Job = () => Promise<number>;

/** Exit codes of the command line. */
export const ExitCode = {
  ok: 0,
  /** Something failed while it ran. */
  failed: 1,
  /** Bad command line or unusable trace: nothing ran. */
  usage: 2,
  /** A log that was run again led to other decisions. */
  differs: 3,
  /** Interrupted; what was measured so far was printed, marked incomplete. */
  interrupted: 130,
} as const;
