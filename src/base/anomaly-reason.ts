/**
 * Events that a correct peer would not send. Each is skipped and counted by its reason; in strict mode the call in which
 * it was found throws it at its end, so that nothing is left half done. Those about what has ended are the exceptions: a
 * client that disconnects, or still speaks, races with the end of its request and is not wrong, so they are counted and
 * never thrown. A `stale-handle` is thrown there if the handle was never given out. An id that is unknown is not, since ids are
 * forgotten with their requests: it may be that of one that has ended.
 */
export type AnomalyReason =
  | 'abort-unknown'
  | 'abort-finished'
  | 'chunk-unknown'
  | 'chunk-finished'
  | 'chunk-not-resumable'
  | 'chunk-after-end'
  | 'end-unknown'
  | 'end-finished'
  | 'end-not-resumable'
  | 'duplicate-end'
  | 'grammar-failed'
  | 'stale-handle'
  | 'unknown-completion'
  | 'duplicate-completion'
  | 'duplicate-hold'
  | 'live-completion'
  | 'wrong-owner'
  | 'wrong-direction'
  | 'invalid-block'
  | 'reassigned-block'
  | 'connector-failed'
  | 'after-reset'
  | 'duplicate-job'
  | 'expired-lease'
  | 'stale-draft'
  | 'realigned-status'
  | 'swept-running'
  | 'purged-untracked';
