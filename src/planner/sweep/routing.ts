// Routers without reports from engines: round robin, and by prefix.
import type { Workload } from '../../workload/workload.js';

/** How a router spreads requests over equal engines. */
export const ROUTERS = ['round-robin', 'prefix'] as const;
export type Router = (typeof ROUTERS)[number];

/**
 * The router leaves the engine of a prefix if this engine has so many more input tokens than the
 * least loaded engine.
 */
const MOST_BEHIND = 60_000;
/** A request counts as load for about this long. */
const MEMORY_MS = 5_000;

/**
 * Chooses the engine of each request. A router receives no messages from engines, and knows only
 * its own decisions. Engines can therefore be simulated one by one, on any number of threads, with
 * the same result.
 *
 * `prefix`: the engine that received the longest prefix of the prompt before, unless it received
 * much more than another engine lately.
 */
export function route(workload: Workload, engines: number, router: Router, speedUp: number): Int32Array {
  const engineOf = new Int32Array(workload.length);
  if (engines === 1) return engineOf;
  if (router === 'round-robin' || !workload.hasContents) {
    for (let i = 0; i < engineOf.length; i++) engineOf[i] = i % engines;
    return engineOf;
  }
  const loads = new Float64Array(engines);
  // By a hash id: the last engine that received the prefix up to this id. Different prefixes have
  // different ids.
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
