// The setup of a run of an engine, and its faults.
import type { EngineOptions } from '../../../src/engine/state/options.js';
import type { Protection } from '../../../src/scheduler/connector/connector.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import type { BorrowerShape } from '../shared/borrow/draw-borrower.js';

/** Kinds of faults, each on or off for a whole run, with a rate of its own. */
export const ENGINE_FAULTS = [
  'rowFails',
  'stepFails',
  'answerWrong',
  'loadFails',
  'blockUnnamed',
  'late',
  'lost',
  'duplicate',
  'stale',
  'wrongChild',
  'foreignBlock',
  'workerThrows',
  'reportsThrow',
  'connectorThrows',
  'connectorNonsense',
  'grammarFails',
  'abortInside',
  'submitInside',
  'fence',
  'reset',
  'pause',
  'hold',
  'logFails',
] as const;
export type EngineFault = (typeof ENGINE_FAULTS)[number];

/** How the tier connector of a run behaves. */
export interface TierShape {
  protection: Protection;
  numRanks: number;
  numChildren: number;
  /** Whether the connector declares which ranks report. */
  declares: boolean;
  /** Probability that a request stores what it computes, block by block; that it is handed over when it ends. */
  stores: number;
  handsOver: number;
  /** Probability that a request stores what is settled, and nothing else. */
  settles: number;
  /** Share of all blocks that another engine has stored before. */
  remote: number;
  /** Probability that a request looks into the tier, that it loads synchronously, that it is asked later. */
  loads: number;
  syncLoads: number;
  asksLater: number;
  delivers: number;
  /** Milliseconds of the simulated clock that a window of a transfer waits at most. */
  slowest: number;
  isStamped: boolean;
}

export interface EngineWorkload {
  weights: Record<EngineEvent, number>;
  longestPrompt: number;
  mostTokens: number;
  numIds: number;
  numFamilies: number;
  sessions: number;
  grammars: number;
  numAdapters: number;
  /** Probability that a request has a time of its own. */
  timeouts: number;
  /** Probability that a step is answered at once. */
  syncAnswers: number;
  /** Largest advance of the clock between two events. */
  tick: number;
}

export const ENGINE_EVENTS = [
  'step',
  'compute',
  'answer',
  'submit',
  'read',
  'abort',
  'chunk',
  'progress',
  'hold',
  'complete',
  'reset',
  'pause',
  'resume',
  'fence',
] as const;
export type EngineEvent = (typeof ENGINE_EVENTS)[number];

/** Sequences that are drawn as a whole, because luck alone seldom brings them about. */
export type Scene =
  | 'none'
  | 'sessions'
  | 'stuck sessions'
  | 'pressure'
  | 'hand-overs'
  | 'quarantine'
  | 'resets'
  | 'verdicts'
  | 'fences'
  | 'adapters'
  | 'freed';
/** Everything about a run but its length, from its seed alone. */
export interface EngineSetup {
  seed: number;
  engine: Omit<WithRules<EngineOptions>, 'executor' | 'now' | 'connector' | 'workers' | 'log' | 'borrower'>;
  tier: TierShape | null;
  borrower: BorrowerShape | null;
  faults: Record<EngineFault, number>;
  workload: EngineWorkload;
  scene: Scene;
  /** How the run ends: drained, disposed, or shut down. */
  end: 'drain' | 'dispose' | 'shutdown';
}
