// Event sequences that are drawn on purpose.
import { Rng } from '../shared/rng.js';
import type { EngineSetup, Scene, TierShape } from './setup.js';

/** The scenes from which a run with a scene draws one; resets are drawn twice as often. */
export const SCENES: readonly Scene[] = [
  ...(['sessions', 'stuck sessions', 'pressure', 'hand-overs', 'quarantine'] as const),
  ...(['resets', 'resets', 'verdicts', 'fences', 'adapters', 'freed'] as const),
];

/** Changes a setup so that its scene can occur. */
export function setTheScene({ seed, engine, faults, workload, scene }: EngineSetup, tier: TierShape): void {
  const rng = new Rng(seed, 'scene');
  const busy = { protection: 'own', stores: 1, slowest: 120 } as const;
  if (scene !== 'none') engine.enablePrefixCaching = true;
  switch (scene) {
    case 'stuck sessions':
      Object.assign(tier, { loads: 1, syncLoads: 0, remote: 1, asksLater: 0 });
      // Prompts that take most of a pool, so that a request that keeps blocks is in everybody's
      // way.
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
      // Full pipelines, so that a request is admitted again before the outputs of its last
      // admission have arrived.
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
      // Requests end while their steps run, and the step behind takes their blocks.
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

/**
 * One run in five that has no scene has sessions and states in a pool that is hardly larger than
 * one request needs. A request that waits there with blocks of its own may need more than there
 * are, and no deadline ends its wait.
 */
export function drawTightStates(setup: EngineSetup, rng: Rng): void {
  const { engine, faults, workload, scene } = setup;
  if (scene !== 'none' || !rng.chance(0.2)) return;
  setup.tier = null;
  Object.assign(faults, { fence: 0, lost: 0, late: 0, hold: 0, logFails: 0 });
  const blockSize = rng.between(2, 4);
  engine.enablePrefixCaching = rng.chance(0.8);
  const mode = engine.enablePrefixCaching ? rng.pick(['align', 'all'] as const) : 'none';
  const states = { type: 'mamba', mode, blockSize } as const;
  engine.kvGroups = rng.pick([
    [states, { type: 'full' }],
    [{ type: 'sliding', window: 5 }, states],
    [states],
  ]);
  Object.assign(engine, {
    ...{ blockSize, pipelineDepth: 1, maxModelLen: rng.between(20, 32), numBlocks: rng.between(6, 16) },
    ...{ maxNumSeqs: rng.between(1, 2), numRows: 3, maxLoras: 0, longPrefillTokenThreshold: 0 },
    ...{ maxNumBatchedTokens: blockSize + rng.pick([2, 2, 8, 28]), sessionSeats: 'running' },
    // With align a rejected draft must leave a state to go on from.
    numSpeculativeTokens: rng.below(mode === 'align' ? blockSize : 4),
    deadlines: false,
  });
  Object.assign(workload, {
    sessions: 0.8,
    longestPrompt: rng.between(6, 20),
    mostTokens: 4,
    numAdapters: 0,
  });
  Object.assign(workload, { numIds: 3, grammars: 0, timeouts: 0 });
  Object.assign(workload.weights, { submit: 10, chunk: 20, abort: 0, hold: 0, pause: 0, fence: 0 });
}
