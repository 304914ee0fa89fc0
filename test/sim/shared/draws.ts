// Draws that both simulators make: events, prompts, faults, holds, timeouts.
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Rng } from './rng.js';

/** A use of blocks that a client holds by itself, until it completes it. */
export interface Hold {
  handle: number;
  kind: 'store' | 'lease' | 'load';
  owner: string;
}

/** A hold of this request, by one of three owners. */
export function drawHold(handle: number, rng: Rng): Hold {
  return { handle, kind: rng.pick(['store', 'lease', 'load'] as const), owner: `job${rng.below(3)}` };
}

/** Draws the next event: one of several, each as often as its weight demands. */
export class EventDice<E extends string> {
  readonly #events: readonly E[];
  readonly #weights: readonly number[];
  readonly #total: number;

  constructor(events: readonly E[], weights: Record<E, number>) {
    this.#events = events;
    this.#weights = events.map((event) => weights[event]);
    this.#total = this.#weights.reduce((sum, weight) => sum + weight, 0);
  }

  draw(rng: Rng): E {
    let dice = rng.below(this.#total);
    let i = 0;
    while (dice >= this.#weights[i]) dice -= this.#weights[i++];
    return this.#events[i];
  }
}

/** The rate of each kind of fault, as `draw` gives it for one. */
export function drawFaults<F extends string>(faults: readonly F[], draw: () => number): Record<F, number> {
  return Object.fromEntries(faults.map((fault) => [fault, draw()])) as Record<F, number>;
}

/** A prompt of one family: the prompts of a family begin alike, up to where one in three of them forks off. */
export function drawPrompt(
  { longestPrompt, numFamilies }: { longestPrompt: number; numFamilies: number },
  rng: Rng,
): Int32Array {
  const length = rng.between(1, longestPrompt);
  const family = rng.below(numFamilies);
  const fork = rng.chance(0.3) ? rng.below(length) : length;
  return Int32Array.from({ length }, (_, i) => (i >= fork ? 500 + rng.below(40) : 20 + family * 100 + i));
}

/**
 * How long requests may be queued (from `least` to `most` milliseconds), and how many have a time
 * of their own. Some runs only, since deadlines cut the rest of the run short.
 */
export function drawTimeouts(
  options: Pick<SchedulerOptions, 'deadlines'>,
  workload: { timeouts: number },
  [least, most]: readonly [number, number],
  rng: Rng,
): void {
  if (rng.chance(0.25)) options.deadlines = { ...options.deadlines, queue: rng.between(least, most) };
  workload.timeouts = rng.chance(0.25) ? 0.4 : 0;
}
