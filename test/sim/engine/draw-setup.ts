// The setup of a run of an engine, drawn from a seed.
import { drawBorrower } from '../shared/borrow/draw-borrower.js';
import { drawGroups } from '../shared/draw-groups.js';
import { drawRules } from '../shared/draw-rules.js';
import { drawClients, drawDeadlines, drawReclaim, drawScheduler } from '../shared/draw-scheduler.js';
import { drawFaults, drawTimeouts } from '../shared/draws.js';
import { Rng } from '../shared/rng.js';
import { drawTightStates, SCENES, setTheScene } from './scene.js';
import {
  ENGINE_FAULTS,
  type EngineEvent,
  type EngineSetup,
  type EngineWorkload,
  type Scene,
  type TierShape,
} from './setup.js';

/** Faults that need a connector. */
const FAULTS_OF_TIERS = ['fence', 'lost', 'late'] as const;

/** Everything about a run, from its seed alone. */
export function drawEngineSetup(seed: number): EngineSetup {
  const rng = new Rng(seed, 'engine setup');
  const scene = rng.chance(0.4) ? 'none' : rng.pick(SCENES);
  const tier = scene !== 'none' || rng.chance(0.85) ? drawTier(seed) : null;
  const faults = drawRates(new Rng(seed, 'engine faults'), tier !== null);
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
  const mayLend = scene === 'none' && faults.logFails === 0;
  const borrower = mayLend ? drawBorrower(new Rng(seed, 'engine borrower'), 1 / 4) : null;
  const setup: EngineSetup = { seed, engine, tier, borrower, faults, workload, scene, end };
  if (tier !== null) setTheScene(setup, tier);
  // Without a prefix cache blocks have no hashes, and so the tier has no keys.
  if (tier !== null && engine.enablePrefixCaching === false)
    Object.assign(tier, { stores: 0, handsOver: 0, settles: 0, loads: 0 });
  const groups = new Rng(seed, 'engine groups');
  if (scene === 'none' || new Rng(seed, 'groups in a scene').chance(0.4))
    drawGroups(engine, workload, groups, true);
  drawRules(engine, new Rng(seed, 'engine rules'));
  drawTimeouts(engine, workload, [60, 400], new Rng(seed, 'engine timeouts'));
  drawTightStates(setup, new Rng(seed, 'engine tight states'));
  return setup;
}

function drawEngine(rng: Rng, scene: Scene, { numAdapters }: EngineWorkload): EngineSetup['engine'] {
  const isDeep = ['resets', 'hand-overs', 'fences', 'freed'].includes(scene);
  const isTight = ['pressure', 'hand-overs', 'stuck sessions', 'freed'].includes(scene);
  const options = drawScheduler(rng, {
    blockSizes: [1, 2, 3, 4, 4, 8],
    leastDepth: isDeep ? 2 : 1,
    leastSeqs: isTight ? 3 : 1,
    room: () => (isTight ? 0.8 + 0.1 * rng.below(5) : 0.6 + 0.2 * rng.below(12)),
    spareRows: () => (scene === 'quarantine' ? 0 : rng.below(6)),
    policy: () => (isTight || rng.chance(0.5) ? 'priority' : 'fcfs'),
    drafts: () => ({
      numSpeculativeTokens: rng.chance(0.35) ? rng.between(1, 3) : 0,
      speculativeMethod: rng.pick(['ngram', 'eagle', 'draft_model'] as const),
    }),
    maxLoras: () => (numAdapters > 0 ? rng.below(3) : 0),
  });
  const reclaim = drawReclaim(rng);
  const reclaims = scene === 'quarantine' ? 1 : 0.4;
  const deadlines = drawDeadlines(rng, {
    ...{ load: [0.6, 30, 300], reclaim: [reclaims, 50, 600] },
    ...{ grammar: [0.6, 30, 300], streamingInput: [0.6, 30, 300] },
  });
  return { ...options, reclaim, deadlines, executorTimeoutMs: 0, stallSteps: rng.between(5, 40) };
}

function drawTier(seed: number): TierShape {
  const rng = new Rng(seed, 'tier');
  return {
    settles: new Rng(seed, 'settled stores').pick([0, 0, 0.5]),
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

/**
 * Many runs are free of most faults; faults that need a connector strike only where there is one.
 */
function drawRates(rng: Rng, hasTier: boolean): EngineSetup['faults'] {
  const share = rng.pick([0, 0.1, 0.2, 0.5]);
  const faults = drawFaults(ENGINE_FAULTS, () => (rng.chance(share) ? rng.pick([0.01, 0.04, 0.15]) : 0));
  // A log that fails ends the run, so there are few such runs.
  faults.logFails = rng.chance(0.05) ? 1 : 0;
  if (!hasTier) for (const fault of FAULTS_OF_TIERS) faults[fault] = 0;
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
    ...drawClients(rng, 50, 20),
    sessions: isTalk ? 0.7 : rng.pick([0, 0, 0.2]),
    grammars: rng.pick([0, 0, 0.3]),
    numAdapters: rng.pick([0, 0, 3]),
    timeouts: 0,
    syncAnswers: rng.pick([0, 0.3, 1]),
    tick: rng.pick([3, 6, 12]),
  };
}
