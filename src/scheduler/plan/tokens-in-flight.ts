import type { Request } from '../request/request.js';
import type { Plan } from './plan.js';

/** Tokens of a request that plans in flight compute, those of dropped outputs included (vLLM num_in_flight_tokens). */
function tokensInFlight(inFlight: readonly Plan[], request: Request): number {
  let tokens = 0;
  for (const plan of inFlight) {
    const at = plan.indexOf(request);
    if (at >= 0) tokens += plan.numScheduledTokens[at];
  }
  return tokens;
}

/** The same where steps in flight keep what they may read (the rule `windowBasis`); else 0. */
export function keptInFlight(
  { config, inFlight }: { config: { windowBasis: 'scheduled' | 'processed' }; inFlight: readonly Plan[] },
  request: Request,
): number {
  return config.windowBasis === 'processed' ? tokensInFlight(inFlight, request) : 0;
}

/**
 * Writes the tokens in flight of a plan's entries from index `from` on, for `NativeCore.run`.
 * Entries of a plan are in the order of `running`, as those of the plans in flight are. So the
 * search for each entry goes on where the one before ended.
 * @param frames of the exchange buffer
 */
export function noteInFlight(
  inFlight: readonly Plan[],
  plan: Plan,
  from: number,
  frames: readonly { readonly numInFlightTokens: Int32Array }[],
): void {
  const { requests, numRequests } = plan;
  const { numInFlightTokens } = frames[plan.frame];
  numInFlightTokens.fill(0, from, numRequests);
  for (const before of inFlight) {
    let next = 0;
    for (let i = from; i < numRequests; i++) {
      let at = next;
      while (at < before.numRequests && before.requests[at] !== requests[i]) at++;
      if (at === before.numRequests) at = before.indexOf(requests[i]);
      if (at < 0) continue;
      numInFlightTokens[i] += before.numScheduledTokens[at];
      next = at + 1;
    }
  }
}
