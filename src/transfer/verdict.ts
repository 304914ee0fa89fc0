/** How a transfer ended. All three are terminal: nothing of it reads or writes memory any more. */
export const Verdict = { ok: 1, failed: 2, cancelled: 3 } as const;
export type Verdict = (typeof Verdict)[keyof typeof Verdict];

const NAMES: Record<Verdict, 'ok' | 'failed' | 'cancelled'> = { 1: 'ok', 2: 'failed', 3: 'cancelled' };

/** A verdict in words. */
export function verdictName(verdict: Verdict): 'ok' | 'failed' | 'cancelled' {
  return NAMES[verdict];
}

/** The verdict on several parts together: failed if any failed, otherwise cancelled if any was cancelled. */
export function worseVerdict(a: Verdict, b: Verdict): Verdict {
  if (a === Verdict.failed || b === Verdict.failed) return Verdict.failed;
  return a === Verdict.cancelled || b === Verdict.cancelled ? Verdict.cancelled : Verdict.ok;
}
