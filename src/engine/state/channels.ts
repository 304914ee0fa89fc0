import { channel } from 'node:diagnostics_channel';

/**
 * The diagnostics channels of the engine, beside those of its scheduler. Messages are plain objects, made only when
 * somebody listens.
 *
 *   blockstep:request:submit        { id, handle }
 *   blockstep:request:stop          { id, handle, stopReason }, when its client stops it; its `request:finish` says `abort`
 *   blockstep:engine:step           { step, numRequests, totalTokens, latencyMs, failed }
 *   blockstep:engine:wrong-answer   { step, detail }
 *   blockstep:engine:worker-failure { rank, method, detail }
 *   blockstep:engine:health         { healthy, reasons }, whenever `healthy` changes
 */
export const channels = {
  submit: channel('blockstep:request:submit'),
  stop: channel('blockstep:request:stop'),
  step: channel('blockstep:engine:step'),
  wrongAnswer: channel('blockstep:engine:wrong-answer'),
  workerFailure: channel('blockstep:engine:worker-failure'),
  health: channel('blockstep:engine:health'),
} as const;
