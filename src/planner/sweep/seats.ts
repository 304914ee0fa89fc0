// Points that differ only in `maxNumSeqs`, and whose runs never need all these seats: one run for
// all.
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { type FleetRun, jsonOf } from './evaluation.js';

/** Points with the same other options, by rising `maxNumSeqs`. */
type Chain = { readonly point: number; readonly seats: number }[];

/**
 * Runs points, but those that differ only in `maxNumSeqs` by rising `maxNumSeqs`. Once a run never
 * had all seats taken, the decisions with more seats are the same: the run is that of all later
 * points too. Only its digest would differ, because a digest depends on the number of seats.
 *
 * Where priorities decide, more requests may wait in the scheduler with more seats. Drafts are drawn
 * by seat. So such points share no run.
 * @param optionsOf the scheduler's options at a point
 * @param threads that run points at once
 * @param onPoint called with each point that has its run
 * @returns the runs in the order of the points
 */
export async function runSharingSeats(
  points: readonly number[],
  optionsOf: (point: number) => Omit<SchedulerOptions, 'now'>,
  threads: number,
  run: (point: number) => Promise<FleetRun>,
  onPoint: () => void,
): Promise<FleetRun[]> {
  const chains = chainsOf(points, optionsOf);
  const atOnce = Math.ceil(threads / chains.length);
  const runs = new Map<number, FleetRun>();
  const add = (point: number, each: FleetRun): void => {
    runs.set(point, each);
    onPoint();
  };
  await Promise.all(chains.map((chain) => runChain(chain, atOnce, run, add)));
  return points.map((point) => runs.get(point)!);
}

async function runChain(
  chain: Chain,
  atOnce: number,
  run: (point: number) => Promise<FleetRun>,
  add: (point: number, run: FleetRun) => void,
): Promise<void> {
  let shared: FleetRun | null = null;
  for (let from = 0; from < chain.length; from += atOnce) {
    const batch = chain.slice(from, from + atOnce);
    const own: FleetRun[] = shared === null ? await Promise.all(batch.map(({ point }) => run(point))) : [];
    for (const [k, { point, seats }] of batch.entries()) {
      add(point, shared ?? own[k]);
      if (shared === null && own[k].peakRunning < seats) shared = own[k];
    }
  }
}

function chainsOf(
  points: readonly number[],
  optionsOf: (point: number) => Omit<SchedulerOptions, 'now'>,
): Chain[] {
  const chains = new Map<string, Chain>();
  for (const point of points) {
    const { maxNumSeqs, ...others } = optionsOf(point);
    const mayShare =
      maxNumSeqs !== undefined && others.policy !== 'priority' && !((others.numSpeculativeTokens ?? 0) > 0);
    const key = mayShare ? jsonOf(others) : `${point}`;
    const chain = chains.get(key) ?? [];
    chain.push({ point, seats: maxNumSeqs ?? 0 });
    chains.set(key, chain);
  }
  const all = [...chains.values()];
  for (const chain of all) chain.sort((a, b) => a.seats - b.seats);
  return all;
}
