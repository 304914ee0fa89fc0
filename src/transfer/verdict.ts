/**
 * How a transfer ended. All three verdicts are final: the transfer reads and writes no memory any
 * more.
 */
export const Verdict = {
  /** Every block was copied. */
  ok: 1,
  /** A part of the transfer failed, so its target blocks may lack their content. */
  failed: 2,
  /**
   * The transfer was stopped before all its blocks were copied, so its target blocks may lack their
   * content.
   */
  cancelled: 3,
} as const;
export type Verdict = (typeof Verdict)[keyof typeof Verdict];

/**
 * The verdict of two parts together: failed if either failed, otherwise cancelled if either was
 * cancelled.
 */
export function worseVerdict(a: Verdict, b: Verdict): Verdict {
  if (a === Verdict.failed || b === Verdict.failed) return Verdict.failed;
  return a === Verdict.cancelled || b === Verdict.cancelled ? Verdict.cancelled : Verdict.ok;
}
