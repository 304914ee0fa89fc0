import { drawBorrower } from '../shared/borrow/draw-borrower.js';
import { drawGroups } from '../shared/draw-groups.js';
import { drawRules } from '../shared/draw-rules.js';
import { drawClients, drawDeadlines, drawReclaim, drawScheduler } from '../shared/draw-scheduler.js';
import { drawFaults, drawTimeouts } from '../shared/draws.js';
import { Rng } from '../shared/rng.js';
import { drawDroppedTails, drawFocus, drawHeldUp, drawLastAsks, drawRetaken } from './focus.js';
import { type ConnectorShape, type Event, FAULTS, type Fault, type Setup, type Workload } from './setup.js';

/** Everything about a run, from its seed alone. */
export function drawSetup(seed: number): Setup {
  const rng = new Rng(seed, 'setup');
  const scheduler = drawOptions(rng);
  const connector = rng.chance(0.85) ? drawConnector(rng) : null;
  const faults = drawRates(new Rng(seed, 'faults'));
  const workload = drawWorkload(new Rng(seed, 'workload'), faults);
  const borrower = drawBorrower(new Rng(seed, 'borrower'), 1 / 8);
  if (borrower !== null)
    Object.assign(workload.weights, { abortAll: 0.2, zombie: borrower.errs > 0 ? 1 : 0 });
  const setup: Setup = { seed, scheduler, connector, borrower, tells: true, faults, workload };
  const hasFocus = drawFocus(setup, new Rng(seed, 'focus'));
  drawTimeouts(scheduler, workload, [30, 250], new Rng(seed, 'timeouts'));
  const groups = new Rng(seed, 'groups');
  const hasGroups = (!hasFocus || groups.chance(0.5)) && drawGroups(scheduler, workload, groups);
  // Without a connector more can be known of what the prefix cache finds.
  if (hasGroups && !hasFocus && groups.chance(0.4)) setup.connector = null;
  if (hasGroups) drawRetaken(setup, new Rng(seed, 'retaken'));
  if (hasGroups) drawHeldUp(setup, new Rng(seed, 'held up'));
  drawRules(scheduler, new Rng(seed, 'rules'));
  if (!hasFocus) drawDroppedTails(setup, new Rng(seed, 'tails'));
  if (!hasFocus) drawLastAsks(setup, new Rng(seed, 'last asks'));
  if (!hasFocus && !hasGroups) drawDecodes(setup, new Rng(seed, 'decodes'));
  // The auditor does not know exactly whom a lost block ends.
  if (scheduler.loadFailurePolicy !== 'recompute') faults.blockLost = 0;
  return setup;
}

/** Now and then a run in which long answers are decoded, so that steps are repeated (`scheduler/steady`). */
function drawDecodes(setup: Setup, rng: Rng): void {
  if (!rng.chance(1 / 6)) return;
  Object.assign(setup, { connector: null, borrower: null, tells: false });
  const plain = { pipelineDepth: 1, numSpeculativeTokens: 0, draftSlots: 0, padDecode: false };
  Object.assign(setup.scheduler, plain, {
    maxModelLen: (setup.scheduler.maxModelLen ?? 0) + rng.between(20, 60),
  });
  const { weights } = setup.workload;
  Object.assign(weights, { add: 4, chunk: Math.min(weights.chunk, 2), abortAll: 0, zombie: 0 });
  setup.workload.mostTokens = rng.between(10, 40);
}

function drawOptions(rng: Rng): Setup['scheduler'] {
  const options = drawScheduler(rng, {
    blockSizes: [1, 2, 3, 4, 4, 8, 16],
    leastDepth: 1,
    leastSeqs: 1,
    // From less than one request to a few: requests that do not fit are preempted, refused or
    // ended.
    room: () => 0.6 + 0.15 * rng.below(12),
    // Often no more rows than requests that run: then one that waits with blocks keeps another from running.
    spareRows: () => Math.max(0, rng.below(6) - 2),
    policy: () => rng.pick(['fcfs', 'priority'] as const),
    drafts: (depth) => ({ numSpeculativeTokens: depth === 1 && rng.chance(0.3) ? rng.between(1, 3) : 0 }),
    maxLoras: () => rng.pick([0, 1, 2]),
  });
  const deadlines = drawDeadlines(rng, {
    ...{ load: [0.6, 15, 250], reclaim: [0.5, 50, 600] },
    ...{ grammar: [0.5, 25, 200], streamingInput: [0.5, 20, 120] },
  });
  return { ...options, deadlines, reclaim: drawReclaim(rng) };
}

function drawConnector(rng: Rng): ConnectorShape {
  const numRanks = rng.between(1, 3);
  const all = Array.from({ length: numRanks }, (_, rank) => rank);
  const numChildren = rng.between(1, 2);
  return {
    protection: rng.pick(['own', 'own', 'own', 'pin', 'fence'] as const),
    // A child may be silent on the ranks behind its first ones.
    reporters: Array.from({ length: numChildren }, (_, child) =>
      child > 0 && rng.chance(0.3) ? all.slice(0, rng.between(1, numRanks)) : all,
    ),
  };
}

function drawRates(rng: Rng): Record<Fault, number> {
  const calm = rng.chance(0.1);
  return drawFaults(FAULTS, () => {
    const rate = rng.pick([0.01, 0.05, 0.2]);
    return !calm && rng.chance(0.4) ? rate : 0;
  });
}

function drawWorkload(rng: Rng, faults: Record<Fault, number>): Workload {
  const weights: Record<Event, number> = {
    ...{ add: rng.between(5, 45), schedule: 30, execute: rng.between(5, 30), update: rng.between(20, 40) },
    ...{ report: rng.between(2, 15), progress: rng.between(5, 20), abort: rng.pick([0, 1, 4, 12]) },
    ...{ chunk: rng.pick([0, 5, 20]), endSession: rng.pick([1, 4]) },
    ...{ hold: rng.pick([0, 0, 1, 4]), complete: 4, reset: rng.pick([0, 0, 1, 2]) },
    ...{ pause: rng.pick([0, 0, 1]), resume: 2, fence: faults.fence > 0 ? 1 : 0 },
    ...{ abortAll: 0, zombie: 0 },
  };
  const isStamped = rng.chance(0.5);
  // Without the step of its load, a report of an earlier load of the same incarnation looks like a
  // report of the present load.
  const ambiguous = faults.duplicate + faults.wrongOwner + faults.stale + faults.fence > 0;
  return {
    weights,
    ...drawClients(rng, 60, 16),
    loads: rng.pick([0.3, 0.6, 1]),
    syncLoads: rng.pick([0, 0.3, 1]),
    asksLater: rng.pick([0, 0, 0.3]),
    stores: rng.pick([0, 0.4, 1]),
    slowest: rng.pick([5, 40, 200]),
    delivers: rng.pick([0, 0.5, 1]),
    sessions: weights.chunk === 0 ? 0 : rng.pick([0, 0.2, 0.6]),
    adapters: rng.pick([0, 0, 0.5]),
    grammars: rng.pick([0, 0, 0.4]),
    isStamped,
    reloads: (isStamped || !ambiguous) && rng.chance(0.5),
    timeouts: 0,
  };
}
