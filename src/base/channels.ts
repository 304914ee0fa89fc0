import { channel } from 'node:diagnostics_channel';

/**
 * Every diagnostics channel of blockstep. Messages are plain objects, made only when somebody listens.
 *
 *   blockstep:request:add      { id, handle, numPromptTokens }
 *   blockstep:request:chunk    { id, handle, numPromptTokens, numTokens }  a session's next chunk begins
 *   blockstep:request:admit    { id, handle, numComputedTokens, resumed }
 *   blockstep:request:preempt  { id, handle }
 *   blockstep:request:finish   { id, handle, reason, numOutputTokens }
 *   blockstep:step             { step, numRequests, totalTokens, freeBlocks }
 *   blockstep:anomaly          { reason, detail }
 */
export const channels = {
  add: channel('blockstep:request:add'),
  chunk: channel('blockstep:request:chunk'),
  admit: channel('blockstep:request:admit'),
  preempt: channel('blockstep:request:preempt'),
  finish: channel('blockstep:request:finish'),
  step: channel('blockstep:step'),
  anomaly: channel('blockstep:anomaly'),
} as const;
