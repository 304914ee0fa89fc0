import type { Workload } from '../../workload/workload.js';

/** How a router spreads requests over equal engines. */
export const ROUTERS = ['round-robin', 'prefix'] as const;
export type Router = (typeof ROUTERS)[number];

/** Input tokens that an engine may be behind the least loaded one before a request goes elsewhere than its prefix lies. */
const MOST_BEHIND = 60_000;
/** What was sent counts as load for about so long. */
const MEMORY_MS = 5_000;

/**
 * The engine of each request. Neither router hears from engines: what it knows is what it sent itself. So engines can be simulated one by one,
 * on as many threads as there are, with the same result.
 *
 * `prefix`: to the engine that was sent the longest prefix of the prompt before, unless it was sent much more than another one lately.
 */
export function route(workload: Workload, engines: number, router: Router, speedUp: number): Int32Array {
  const engineOf = new Int32Array(workload.length);
  if (engines === 1) return engineOf;
  if (router === 'round-robin' || !workload.hasContents) {
    for (let i = 0; i < engineOf.length; i++) engineOf[i] = i % engines;
    return engineOf;
  }
  const loads = new Float64Array(engines);
  // The engine that was last sent a prefix that ends with a hash id: ids of different prefixes are different.
  const sent = new Map<number, number>();
  let lastMs = 0;
  for (let i = 0; i < engineOf.length; i++) {
    const atMs = workload.arrivalMs[i] / speedUp;
    const kept = Math.exp((lastMs - atMs) / MEMORY_MS);
    lastMs = atMs;
    let least = 0;
    for (let e = 0; e < engines; e++) {
      loads[e] *= kept;
      if (loads[e] < loads[least]) least = e;
    }
    const ids = workload.hashIds(i);
    let engine = -1;
    for (let k = ids.length - 1; k >= 0 && engine < 0; k--) engine = sent.get(ids[k]) ?? -1;
    if (engine < 0 || loads[engine] > loads[least] + MOST_BEHIND) engine = least;
    loads[engine] += workload.inputTokens[i];
    for (const id of ids) sent.set(id, engine);
    engineOf[i] = engine;
  }
  return engineOf;
}
