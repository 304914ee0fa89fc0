import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { Rng } from '../rng.js';
import { drawFocus } from './focus.js';
import type { ConnectorShape } from './world.js';

/** Kinds of faults, each on or off for a whole run, with a rate of its own: so that some runs are free of most. */
export const FAULTS = [
  'rowFails',
  'stepFails',
  'loadFails',
  'wholeLoadFails',
  'blockUnnamed',
  'late',
  'lost',
  'duplicate',
  'stale',
  'unknown',
  'wrongOwner',
  'foreignFailure',
  'foreignBlock',
  'connectorThrows',
  'connectorNonsense',
  'abortInside',
  'fence',
] as const;
export type Fault = (typeof FAULTS)[number];

/** Everything about a run but its length, from its seed alone. */
export interface Setup {
  seed: number;
  scheduler: Omit<SchedulerOptions, 'now' | 'connector'>;
  connector: ConnectorShape | null;
  /** Probability of each fault where it can happen. */
  faults: Record<Fault, number>;
  workload: Workload;
}

export interface Workload {
  /** Relative weights of what can happen next. */
  weights: Record<Event, number>;
  longestPrompt: number;
  mostTokens: number;
  /** External ids in use; few, so that they are used again at once. */
  numIds: number;
  /** Prompts that begin alike. */
  numFamilies: number;
  /** Probability that a request has something to load, that it loads synchronously, that it is asked again later. */
  loads: number;
  syncLoads: number;
  asksLater: number;
  /** Probability that a child wants to send when a request has ended. */
  stores: number;
  /** Probability that a request which lost its blocks must have them to end. */
  delivers: number;
  /** Milliseconds that a transfer takes at most. */
  slowest: number;
  /** Reports of loads say which step began them. */
  isStamped: boolean;
  /** Probability that a request opens a session, has an adapter, has a grammar. */
  sessions: number;
  adapters: number;
  grammars: number;
  /** Probability that a request has a time of its own. */
  timeouts: number;
  /** An incarnation may load again after a preemption or a failure. */
  reloads: boolean;
}

export const EVENTS = [
  'add',
  'schedule',
  'execute',
  'update',
  'report',
  'progress',
  'abort',
  'chunk',
  'endSession',
  'hold',
  'complete',
  'reset',
  'pause',
  'resume',
  'fence',
] as const;
export type Event = (typeof EVENTS)[number];

export function drawSetup(seed: number): Setup {
  const rng = new Rng(seed, 'setup');
  const scheduler = drawScheduler(rng);
  const connector = rng.chance(0.85) ? drawConnector(rng) : null;
  const faults = drawFaults(new Rng(seed, 'faults'));
  const workload = drawWorkload(new Rng(seed, 'workload'), faults);
  const setup: Setup = { seed, scheduler, connector, faults, workload };
  drawFocus(setup, new Rng(seed, 'focus'));
  drawTimeouts(setup, new Rng(seed, 'timeouts'));
  return setup;
}

/** How long requests may stand in the queue, and take as a whole: in some runs, since it cuts short what else they are for. */
function drawTimeouts({ scheduler, workload }: Setup, rng: Rng): void {
  const { deadlines } = scheduler;
  if (rng.chance(0.25)) scheduler.deadlines = { ...deadlines, queue: rng.between(30, 250) };
  workload.timeouts = rng.chance(0.25) ? 0.4 : 0;
}

function drawScheduler(rng: Rng): Setup['scheduler'] {
  const blockSize = rng.pick([1, 2, 3, 4, 4, 8, 16]);
  const maxModelLen = rng.between(20, 60);
  const pipelineDepth = (1 + rng.below(3)) as 1 | 2 | 3;
  const needed = Math.ceil(maxModelLen / blockSize);
  const maxNumSeqs = rng.between(1, 6);
  return {
    blockSize,
    maxModelLen,
    pipelineDepth,
    maxNumSeqs,
    // From less than one request to a few: what does not fit is preempted, refused or ended.
    numBlocks: Math.max(3, 1 + Math.floor(needed * (0.6 + 0.15 * rng.below(12)))),
    maxNumBatchedTokens: rng.between(4, 40),
    numRows: maxNumSeqs + rng.below(6),
    policy: rng.pick(['fcfs', 'priority'] as const),
    enablePrefixCaching: !rng.chance(0.1),
    longPrefillTokenThreshold: rng.chance(0.3) ? rng.between(1, 8) : 0,
    reserveFullIsl: rng.chance(0.5),
    numSpeculativeTokens: pipelineDepth === 1 && rng.chance(0.3) ? rng.between(1, 3) : 0,
    hashSeed: 7,
    maxLoras: rng.pick([0, 1, 2]),
    loadFailurePolicy: rng.pick(['fail', 'recompute'] as const),
    deadlines: {
      load: rng.chance(0.6) ? rng.between(15, 250) : 0,
      reclaim: rng.chance(0.5) ? rng.between(50, 600) : 0,
      grammar: rng.chance(0.5) ? rng.between(25, 200) : 0,
      streamingInput: rng.chance(0.5) ? rng.between(20, 120) : 0,
    },
    reclaim: rng.pick(['on-report', 'on-confirmation'] as const),
  };
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

function drawFaults(rng: Rng): Record<Fault, number> {
  const calm = rng.chance(0.1);
  const rates = FAULTS.map((fault) => {
    const rate = rng.pick([0.01, 0.05, 0.2]);
    return [fault, !calm && rng.chance(0.4) ? rate : 0];
  });
  return Object.fromEntries(rates) as Record<Fault, number>;
}

function drawWorkload(rng: Rng, faults: Record<Fault, number>): Workload {
  const weights: Record<Event, number> = {
    ...{ add: rng.between(5, 45), schedule: 30, execute: rng.between(5, 30), update: rng.between(20, 40) },
    ...{ report: rng.between(2, 15), progress: rng.between(5, 20), abort: rng.pick([0, 1, 4, 12]) },
    ...{ chunk: rng.pick([0, 5, 20]), endSession: rng.pick([1, 4]) },
    ...{ hold: rng.pick([0, 0, 1, 4]), complete: 4, reset: rng.pick([0, 0, 1, 2]) },
    ...{ pause: rng.pick([0, 0, 1]), resume: 2, fence: faults.fence > 0 ? 1 : 0 },
  };
  const isStamped = rng.chance(0.5);
  // Unless it says so, a report of an earlier load of the same incarnation cannot be told from one of the present load.
  const ambiguous = faults.duplicate + faults.wrongOwner + faults.stale + faults.fence > 0;
  return {
    weights,
    longestPrompt: rng.between(4, 60),
    mostTokens: rng.between(1, 16),
    numIds: rng.pick([3, 6, 12, 40]),
    numFamilies: rng.between(1, 4),
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
