/**
 * Why an event is an anomaly. An anomaly is an event that a correct peer would not send. The event
 * is skipped and counted by its reason. In strict mode the call that found the anomaly throws it
 * when the call ends, so that nothing is left half done.
 *
 * Some anomalies are never thrown, even in strict mode (`NEVER_THROWN` in `anomalies.ts`). A client
 * that aborts, or sends one more chunk, races with the end of its request and is not wrong. A
 * worker that reports a block cannot know that the block's request was preempted or aborted
 * meanwhile. A `stale-handle` of a client is thrown only if the handle was never given out. An
 * unknown id is never thrown. Ids are forgotten with their requests, so the id may be that of a
 * request that has ended.
 */
export type AnomalyReason =
  | 'abort-unknown'
  | 'abort-finished'
  | 'chunk-unknown'
  | 'chunk-finished'
  | 'chunk-not-resumable'
  | 'chunk-after-end'
  | 'chunk-beyond-window'
  | 'duplicate-chunk'
  | 'foreign-message'
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
  | 'kv-events-failed'
  | 'after-reset'
  | 'duplicate-job'
  | 'expired-lease'
  | 'stale-draft'
  | 'realigned-status'
  | 'swept-running'
  | 'purged-untracked'
  | 'borrower-failed'
  | 'lost-request'
  | 'misplaced-request';
