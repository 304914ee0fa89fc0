// Helper: the answer of a reset, in short.
import type { ResetResult } from '../../../src/index.js';

/** The answer of a reset that was carried out; `more` is what it names. */
export const resetDone = (more: Partial<ResetResult> = {}): ResetResult => ({
  ...{ ok: true, local: true, connector: null },
  ...{ blockers: [], pinnedBlocks: 0, preempted: [], reclaimed: [], ...more },
});

/** The answer of a reset that these requests are in the way of. */
export const resetRefused = (blockers: string[], more: Partial<ResetResult> = {}): ResetResult => ({
  ...resetDone({ ok: false, local: false, blockers, ...more }),
});
