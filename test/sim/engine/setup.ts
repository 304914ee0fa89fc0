import type { EngineOptions } from '../../../src/engine/state/options.js';
import type { Protection } from '../../../src/scheduler/connector/connector.js';
import { Rng } from '../rng.js';

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
  /** It says which ranks report. */
  declares: boolean;
  /** Probability that a request stores what it computes, block by block; that it is handed over when it ends. */
  stores: number;
  handsOver: number;
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
const SCENES: readonly Scene[] = [
  ...(['sessions', 'stuck sessions', 'pressure', 'hand-overs', 'quarantine'] as const),
  ...(['resets', 'resets', 'verdicts', 'fences', 'adapters', 'freed'] as const),
];

/** Everything about a run but its length, from its seed alone. */
export interface EngineSetup {
  seed: number;
  engine: Omit<EngineOptions, 'executor' | 'now' | 'connector' | 'workers' | 'log'>;
  tier: TierShape | null;
  faults: Record<EngineFault, number>;
  workload: EngineWorkload;
  scene: Scene;
  /** How the run ends: drained, disposed, or shut down. */
  end: 'drain' | 'dispose' | 'shutdown';
}

export function drawEngineSetup(seed: number): EngineSetup {
  const rng = new Rng(seed, 'engine setup');
  const scene = rng.chance(0.4) ? 'none' : rng.pick(SCENES);
  const tier = scene !== 'none' || rng.chance(0.85) ? drawTier(new Rng(seed, 'tier')) : null;
  const faults = drawFaults(new Rng(seed, 'engine faults'), tier !== null);
  const workload = drawWorkload(new Rng(seed, 'engine workload'), scene, faults);
  const engine = drawEngine(rng, scene, workload);
  const end = rng.pick([
    'drain',
    'drain',
    'drain',
    'drain',
    'drain',
    'drain',
    'dispose',
    'shutdown',
  ] as const);
  const setup = { seed, engine, tier, faults, workload, scene, end };
  if (tier !== null) setTheScene(setup, tier);
  // Without a prefix cache blocks have no hashes, and so the tier has no keys.
  if (tier !== null && engine.enablePrefixCaching === false)
    Object.assign(tier, { stores: 0, handsOver: 0, loads: 0 });
  drawTimeouts(setup, new Rng(seed, 'engine timeouts'));
  return setup;
}

/** How long requests may stand in the queue, and take as a whole: in some lives, since it cuts short what else they are for. */
function drawTimeouts({ engine, workload }: EngineSetup, rng: Rng): void {
  const { deadlines } = engine;
  if (rng.chance(0.25)) engine.deadlines = { ...deadlines, queue: rng.between(60, 400) };
  workload.timeouts = rng.chance(0.25) ? 0.4 : 0;
}

/** What a sequence needs that it is drawn for. */
function setTheScene({ seed, engine, faults, workload, scene }: EngineSetup, tier: TierShape): void {
  const rng = new Rng(seed, 'scene');
  const busy = { protection: 'own', stores: 1, slowest: 120 } as const;
  if (scene !== 'none') engine.enablePrefixCaching = true;
  switch (scene) {
    case 'stuck sessions':
      Object.assign(tier, { loads: 1, syncLoads: 0, remote: 1, asksLater: 0 });
      // Prompts that take most of a pool, so that one who keeps blocks is in everybody's way.
      Object.assign(engine, { policy: 'priority', loadFailurePolicy: 'recompute', reserveFullIsl: true });
      Object.assign(workload, { longestPrompt: Math.floor(0.8 * (engine.maxModelLen ?? 0)), numFamilies: 4 });
      Object.assign(faults, { loadFails: 0.5, lost: 0 });
      workload.weights.abort = 0;
      break;
    case 'hand-overs':
      Object.assign(tier, {
        protection: rng.pick(['own', 'pin']),
        handsOver: 1,
        stores: 1,
        remote: 1,
        slowest: 3,
      });
      Object.assign(workload, {
        syncAnswers: 0,
        mostTokens: rng.between(4, 12),
        grammars: rng.pick([0, 0.3]),
      });
      // Full pipelines, so that a request is admitted again before what it said in its last life was heard.
      Object.assign(workload.weights, { step: 60, compute: 10, answer: 12, submit: 20, abort: 0 });
      Object.assign(engine, { pipelineDepth: 3, blockSize: rng.pick([1, 2]), reserveFullIsl: false });
      engine.numBlocks =
        1 + Math.ceil(((engine.maxModelLen ?? 0) / (engine.blockSize ?? 1)) * (1 + rng.below(4) / 4));
      break;
    case 'quarantine':
      Object.assign(tier, busy);
      faults.lost = 0.3;
      break;
    case 'resets':
      Object.assign(tier, { ...busy, loads: 1, syncLoads: 0, remote: rng.pick([0, 0.3, 1]), asksLater: 0 });
      break;
    case 'verdicts':
      Object.assign(tier, { loads: 1, syncLoads: 1, remote: 1 });
      Object.assign(faults, { loadFails: 0.3, reportsThrow: 0.15 });
      break;
    case 'freed':
      // What ends while its step runs, and the step behind it takes its blocks.
      Object.assign(tier, { ...busy, protection: 'fence', loads: 0.3, handsOver: 0 });
      Object.assign(workload, { syncAnswers: 0, mostTokens: 4, sessions: 0 });
      Object.assign(workload.weights, { step: 50, compute: 10, answer: 12, submit: 25, abort: 12 });
      break;
    case 'adapters':
      // Drafts in flight that may reach the model's length, so that their request has no entry in the next plan.
      Object.assign(tier, { loads: 0.3, stores: 0, handsOver: 0, asksLater: 0 });
      Object.assign(engine, { maxLoras: 1, numSpeculativeTokens: rng.between(2, 3), pipelineDepth: 2 });
      Object.assign(engine, { maxNumSeqs: 6, numRows: 8, numBlocks: 121, maxNumBatchedTokens: 60 });
      Object.assign(workload, { numAdapters: 3, longestPrompt: engine.maxModelLen, mostTokens: 12 });
      Object.assign(workload, { numIds: 40, sessions: 0, grammars: 0, syncAnswers: 0 });
      Object.assign(workload.weights, { submit: 25, abort: 0 });
      break;
    case 'fences':
      Object.assign(tier, { ...busy, loads: 1, syncLoads: 0.5, remote: 1, numChildren: 2 });
      faults.wrongChild = 0.15;
      break;
  }
}

function drawEngine(rng: Rng, scene: Scene, { numAdapters }: EngineWorkload): EngineSetup['engine'] {
  const blockSize = rng.pick([1, 2, 3, 4, 4, 8]);
  const maxModelLen = rng.between(20, 60);
  const isDeep = ['resets', 'hand-overs', 'fences', 'freed'].includes(scene);
  const pipelineDepth = rng.between(isDeep ? 2 : 1, 3) as 1 | 2 | 3;
  const needed = Math.ceil(maxModelLen / blockSize);
  const isTight = ['pressure', 'hand-overs', 'stuck sessions', 'freed'].includes(scene);
  const maxNumSeqs = rng.between(isTight ? 3 : 1, 6);
  const room = isTight ? 0.8 + 0.1 * rng.below(5) : 0.6 + 0.2 * rng.below(12);
  return {
    blockSize,
    maxModelLen,
    pipelineDepth,
    maxNumSeqs,
    numBlocks: Math.max(3, 1 + Math.floor(needed * room)),
    maxNumBatchedTokens: rng.between(4, 40),
    numRows: maxNumSeqs + (scene === 'quarantine' ? 0 : rng.below(6)),
    policy: isTight || rng.chance(0.5) ? 'priority' : 'fcfs',
    enablePrefixCaching: !rng.chance(0.1),
    longPrefillTokenThreshold: rng.chance(0.3) ? rng.between(1, 8) : 0,
    reserveFullIsl: rng.chance(0.5),
    numSpeculativeTokens: rng.chance(0.35) ? rng.between(1, 3) : 0,
    speculativeMethod: rng.pick(['ngram', 'eagle', 'draft_model'] as const),
    maxLoras: numAdapters > 0 ? rng.below(3) : 0,
    hashSeed: 7,
    loadFailurePolicy: rng.pick(['fail', 'recompute'] as const),
    reclaim: rng.pick(['on-report', 'on-confirmation'] as const),
    deadlines: {
      load: rng.chance(0.6) ? rng.between(30, 300) : 0,
      reclaim: scene === 'quarantine' || rng.chance(0.4) ? rng.between(50, 600) : 0,
      grammar: rng.chance(0.6) ? rng.between(30, 300) : 0,
      streamingInput: rng.chance(0.6) ? rng.between(30, 300) : 0,
    },
    executorTimeoutMs: 0,
    stallSteps: rng.between(5, 40),
  };
}

function drawTier(rng: Rng): TierShape {
  return {
    protection: rng.pick(['own', 'own', 'pin', 'fence'] as const),
    numRanks: rng.pick([1, 2, 2, 3]),
    numChildren: rng.between(1, 2),
    stores: rng.pick([0, 0.5, 1, 1]),
    remote: rng.pick([0, 0.3, 1]),
    handsOver: rng.pick([0, 0, 0.5]),
    loads: rng.pick([0.3, 0.7, 1]),
    syncLoads: rng.pick([0, 0.3, 1]),
    asksLater: rng.pick([0, 0, 0.2]),
    delivers: rng.pick([0, 0, 0.5]),
    slowest: rng.pick([3, 20, 120]),
    isStamped: rng.chance(0.6),
    declares: rng.chance(0.5),
  };
}

/** Many runs are free of most faults; those that need a connector strike only where there is one. */
function drawFaults(rng: Rng, hasTier: boolean): EngineSetup['faults'] {
  const share = rng.pick([0, 0.1, 0.2, 0.5]);
  const rates = ENGINE_FAULTS.map((fault) => [fault, rng.chance(share) ? rng.pick([0.01, 0.04, 0.15]) : 0]);
  const faults = Object.fromEntries(rates) as EngineSetup['faults'];
  // A log that fails ends the run, so there are few such runs.
  faults.logFails = rng.chance(0.05) ? 1 : 0;
  if (!hasTier) for (const fault of ['fence', 'lost', 'late'] as const) faults[fault] = 0;
  return faults;
}

function drawWorkload(rng: Rng, scene: Scene, faults: EngineSetup['faults']): EngineWorkload {
  const isTalk = scene === 'sessions' || scene === 'stuck sessions';
  const weights: Record<EngineEvent, number> = {
    ...{ step: 40, compute: rng.between(5, 30), answer: rng.between(10, 30), submit: rng.between(4, 25) },
    ...{ read: 5, abort: rng.pick([0, 1, 3]), chunk: isTalk ? 15 : 5 },
    ...{ progress: rng.between(3, 12), hold: faults.hold > 0 ? 2 : 0, complete: 3 },
    ...{
      reset: scene === 'resets' ? 4 : faults.reset > 0 ? 1 : 0,
      pause: faults.pause > 0 ? 1 : 0,
      resume: 2,
    },
    ...{ fence: scene === 'fences' ? 4 : faults.fence > 0 ? 1 : 0 },
  };
  return {
    weights,
    longestPrompt: rng.between(4, 50),
    mostTokens: rng.between(1, 20),
    numIds: rng.pick([3, 6, 12, 40]),
    numFamilies: rng.between(1, 4),
    sessions: isTalk ? 0.7 : rng.pick([0, 0, 0.2]),
    grammars: rng.pick([0, 0, 0.3]),
    numAdapters: rng.pick([0, 0, 3]),
    timeouts: 0,
    syncAnswers: rng.pick([0, 0.3, 1]),
    tick: rng.pick([3, 6, 12]),
  };
}
