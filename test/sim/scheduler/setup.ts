import type { Protection } from '../../../src/scheduler/connector/connector.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import type { BorrowerShape } from '../shared/borrow/draw-borrower.js';

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
  'blockLost',
] as const;
export type Fault = (typeof FAULTS)[number];

/** The shape of a simulated connector. */
export interface ConnectorShape {
  protection: Protection;
  /** Ranks that report, by child. */
  reporters: number[][];
}

/** Everything about a run but its length, from its seed alone. */
export interface Setup {
  seed: number;
  scheduler: Omit<WithRules<SchedulerOptions>, 'now' | 'connector'>;
  connector: ConnectorShape | null;
  borrower: BorrowerShape | null;
  /** Whether somebody reads the events of the prefix cache, which a repeated step does not tell. */
  tells: boolean;
  /** Probability of each fault where it can happen. */
  faults: Record<Fault, number>;
  workload: Workload;
}

export interface Workload {
  /** Relative weights of the possible next events. */
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
  /** Reports of loads name the step that began them. */
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
  /** Where there is a borrowing adapter. */
  'abortAll',
  'zombie',
] as const;
export type Event = (typeof EVENTS)[number];
