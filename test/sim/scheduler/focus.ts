import { Rng } from '../shared/rng.js';
import type { Setup } from './setup.js';

/**
 * Situations that need several rare things at once. A run that has one is given rates which bring them together; all else
 * of it is drawn as ever.
 */
type Focus = (setup: Setup, rng: Rng) => void;

/** Room for several requests that begin alike, and steps in flight behind one another. */
function share({ scheduler, workload }: Setup, rng: Rng): void {
  scheduler.pipelineDepth = rng.pick([2, 3] as const);
  scheduler.numSpeculativeTokens = 0;
  scheduler.blockSize = rng.between(1, 4);
  scheduler.enablePrefixCaching = true;
  scheduler.maxNumSeqs = rng.between(3, 6);
  scheduler.numRows = scheduler.maxNumSeqs + 2;
  scheduler.maxNumBatchedTokens = rng.between(20, 40);
  const needed = Math.ceil((scheduler.maxModelLen as number) / scheduler.blockSize);
  scheduler.numBlocks = 1 + Math.floor(needed * rng.pick([1.2, 2, 3]));
  Object.assign(workload, { numFamilies: 1, longestPrompt: rng.between(20, 60), numIds: 12 });
}

/**
 * A load that a step waits for fails when a request that shared it has left: by an abort, or for
 * lack of blocks.
 */
function sharedSyncLoad(setup: Setup, rng: Rng): void {
  share(setup, rng);
  setup.scheduler.loadFailurePolicy = rng.chance(0.7) ? 'recompute' : 'fail';
  Object.assign(setup.workload, { loads: 0.3, syncLoads: 1, stores: 0, reloads: false, mostTokens: 6 });
  Object.assign(setup.faults, {
    loadFails: 0.2,
    wholeLoadFails: rng.pick([0, 0.2]),
    rowFails: 0,
    stepFails: 0,
  });
  Object.assign(setup.workload.weights, { add: 40, abort: rng.pick([6, 30]), execute: 15, update: 15 });
}

/** Short prompts that begin alike, in a pool that soon forgets them, with several steps in flight. */
function shortPrompts({ scheduler, faults, workload }: Setup, rng: Rng): void {
  scheduler.pipelineDepth = 3;
  scheduler.numSpeculativeTokens = 0;
  scheduler.enablePrefixCaching = true;
  scheduler.blockSize = rng.between(1, 2);
  scheduler.maxModelLen = 16;
  scheduler.maxNumSeqs = rng.between(3, 5);
  scheduler.numRows = scheduler.maxNumSeqs + 3;
  scheduler.maxNumBatchedTokens = 40;
  scheduler.longPrefillTokenThreshold = 0;
  Object.assign(workload, { loads: 0.5, syncLoads: 1, stores: 0, asksLater: 0, sessions: 0, grammars: 0 });
  Object.assign(workload, { longestPrompt: 14, mostTokens: 2, numIds: 12, isStamped: true, reloads: true });
  Object.assign(faults, { rowFails: 0, stepFails: 0, connectorThrows: 0, connectorNonsense: 0, fence: 0 });
  Object.assign(workload.weights, { add: 40, schedule: 30, hold: 0, pause: 0, chunk: 0, report: 2 });
}

/**
 * A request that shared a failed load has gone on computing behind it in a later step, and has
 * left.
 */
function leftLater(setup: Setup, rng: Rng): void {
  shortPrompts(setup, rng);
  const { scheduler, faults, workload } = setup;
  scheduler.loadFailurePolicy = 'recompute';
  scheduler.numBlocks = 1 + Math.floor((16 / (scheduler.blockSize as number)) * rng.pick([2.5, 4]));
  workload.numFamilies = rng.between(2, 4);
  Object.assign(faults, { loadFails: 0, wholeLoadFails: 0.5 });
  Object.assign(workload.weights, { abort: rng.pick([6, 15]), reset: 1, execute: 10, update: 20 });
}

/** A block is to be filled by the loads of several steps in flight, since those of the older ones are given up. */
function filledTwice(setup: Setup, rng: Rng): void {
  shortPrompts(setup, rng);
  const { scheduler, faults, workload, connector } = setup;
  // Then a report without a request is about each of these loads.
  if (connector !== null) connector.reporters.length = 1;
  scheduler.maxNumSeqs = rng.between(1, 2);
  scheduler.numBlocks = 1 + Math.ceil((16 / (scheduler.blockSize as number)) * 1.1);
  workload.numFamilies = 8;
  workload.loads = 1;
  Object.assign(faults, { loadFails: 0.7, wholeLoadFails: 0, blockUnnamed: rng.pick([0.5, 1]) });
  Object.assign(workload.weights, { abort: 15, reset: 15, execute: 40, update: 8, report: 20 });
}

/** A request is preempted and loaded again while an older step of it is in flight, and one of its loads fails. */
function loadedAgain({ scheduler, faults, workload }: Setup, rng: Rng): void {
  scheduler.pipelineDepth = 3;
  scheduler.numSpeculativeTokens = 0;
  scheduler.loadFailurePolicy = 'fail';
  scheduler.maxNumSeqs = rng.between(2, 4);
  scheduler.numRows = 8;
  scheduler.numBlocks =
    1 + Math.ceil(((scheduler.maxModelLen as number) / (scheduler.blockSize as number)) * 1.2);
  Object.assign(workload, { isStamped: true, reloads: true, loads: rng.pick([0.3, 0.6]), stores: 0 });
  Object.assign(workload, { syncLoads: 0, slowest: 5, asksLater: 0, sessions: 0, mostTokens: 16 });
  Object.assign(faults, { loadFails: 0.05, wholeLoadFails: 0.2, foreignFailure: rng.pick([0, 0.2]) });
  Object.assign(workload.weights, { reset: rng.pick([0, 2, 6]), execute: 40, update: 25 });
}

/**
 * A request is given the same blocks again while the step that read its failed load is in flight.
 */
function givenAgain({ scheduler, faults, workload }: Setup, rng: Rng): void {
  scheduler.pipelineDepth = rng.pick([2, 3] as const);
  scheduler.numSpeculativeTokens = 0;
  scheduler.loadFailurePolicy = 'fail';
  scheduler.maxNumSeqs = rng.between(1, 3);
  scheduler.numRows = 6;
  scheduler.blockSize = rng.between(1, 4);
  scheduler.numBlocks = 1 + Math.ceil(((scheduler.maxModelLen as number) / scheduler.blockSize) * 1.1);
  Object.assign(workload, { isStamped: true, loads: 0.6, syncLoads: 1, stores: 0, asksLater: 0 });
  Object.assign(workload, { reloads: rng.chance(0.5) });
  const [loadFails, wholeLoadFails] = rng.pick([
    [0, 0.3],
    [0.3, 0],
  ]);
  Object.assign(faults, { loadFails, wholeLoadFails, rowFails: 0, stepFails: 0, connectorThrows: 0 });
  // Then a report is about the load of the step in flight as much as about that of the step behind it.
  faults.blockUnnamed = rng.pick([0, 0.5]);
  Object.assign(workload.weights, {
    add: 20,
    reset: 15,
    execute: 20,
    update: 12,
    report: 2,
    hold: 0,
    pause: 0,
  });
}

/**
 * A cached prefix of a request turns out to be bad while it waits for its load, and then the load
 * fails too.
 */
function cutAndLost(setup: Setup, rng: Rng): void {
  share(setup, rng);
  setup.scheduler.loadFailurePolicy = 'recompute';
  Object.assign(setup.workload, { loads: 0.6, syncLoads: rng.pick([0, 0.3]), stores: 0, slowest: 40 });
  Object.assign(setup.faults, { rowFails: rng.pick([0.05, 0.2]), stepFails: 0.01, wholeLoadFails: 0.5 });
}

/** Several requests of one id are sent, and an abort names the id. */
function sentAndAborted({ scheduler, faults, workload }: Setup, rng: Rng): void {
  scheduler.reclaim = 'on-confirmation';
  scheduler.deadlines = { load: 100, reclaim: rng.pick([0, 600]) };
  scheduler.numRows = (scheduler.maxNumSeqs as number) + 6;
  Object.assign(workload, { numIds: 3, stores: 1, slowest: 200, longestPrompt: 6, mostTokens: 3 });
  Object.assign(workload.weights, { abort: 12 });
  Object.assign(faults, { connectorThrows: 0, rowFails: 0, stepFails: 0 });
}

/** Loads that are done, and are held once more before anybody can go on. */
function heldLoads({ scheduler, faults, workload }: Setup, rng: Rng): void {
  scheduler.loadFailurePolicy = rng.pick(['fail', 'recompute'] as const);
  faults.connectorThrows = rng.pick([0, 0.05]);
  faults.fence = rng.pick([0, 0.2]);
  workload.weights.fence = faults.fence > 0 ? 3 : 0;
  scheduler.deadlines = { load: rng.between(15, 100), reclaim: rng.pick([0, 300]) };
  Object.assign(workload, { loads: 1, syncLoads: 0, slowest: 20 });
  Object.assign(workload.weights, { hold: 15, complete: rng.pick([5, 15]), report: 15 });
}

/** Reports of earlier loads come again while a later one of the same request is under way, or was when it was aborted. */
function staleReports({ scheduler, faults, workload }: Setup, rng: Rng): void {
  scheduler.loadFailurePolicy = 'recompute';
  scheduler.deadlines = { load: 0, reclaim: rng.pick([0, 600]) };
  Object.assign(workload, {
    isStamped: true,
    reloads: true,
    loads: 1,
    syncLoads: 0,
    slowest: 100,
    asksLater: 0,
  });
  Object.assign(workload, { numFamilies: 4, longestPrompt: 12 });
  Object.assign(faults, {
    wholeLoadFails: 0.3,
    duplicate: 0.2,
    stale: 0.2,
    fence: 0,
    connectorThrows: 0,
    lost: 0,
  });
  Object.assign(workload.weights, { report: 20, abort: rng.pick([1, 8]) });
}

/**
 * A child reports that it has sent the blocks of a running request, and later is one of the
 * senders.
 */
function saidEarly({ faults, workload }: Setup): void {
  Object.assign(workload, { stores: 1, mostTokens: 16, slowest: 5, loads: 0.3 });
  Object.assign(faults, { wrongOwner: 0.2, connectorThrows: 0, fence: 0 });
  Object.assign(workload.weights, { report: 20, abort: 1 });
}

/** Chunks come while an answer ends with more steps of it in flight, and blocks are few. */
function busySessions({ scheduler, workload }: Setup, rng: Rng): void {
  scheduler.pipelineDepth = rng.pick([2, 3] as const);
  scheduler.numSpeculativeTokens = 0;
  const { deadlines } = scheduler;
  if (deadlines) scheduler.deadlines = { ...deadlines, streamingInput: rng.pick([0, 15, 40]) };
  Object.assign(workload, { sessions: 0.8, longestPrompt: 12, mostTokens: 5, loads: rng.pick([0, 0.6]) });
  if (workload.loads > 0 && rng.chance(0.7)) {
    // Preempted and loaded again while the answer is computed, and the load goes on behind its end.
    Object.assign(workload, { isStamped: true, reloads: true, syncLoads: 0, slowest: 200, asksLater: 0 });
    scheduler.deadlines = { load: 0, reclaim: 0 };
    scheduler.numBlocks =
      1 + Math.ceil(((scheduler.maxModelLen as number) / (scheduler.blockSize as number)) * 1.2);
  }
  Object.assign(workload.weights, {
    chunk: 40,
    endSession: 2,
    abort: rng.pick([0, 4]),
    reset: rng.pick([0, 2]),
  });
}

const FOCUSES: readonly Focus[] = [
  // Twice, since they cause the rarest events.
  ...[sharedSyncLoad, sharedSyncLoad, loadedAgain, loadedAgain],
  ...[givenAgain, cutAndLost, sentAndAborted, heldLoads, staleReports, saidEarly, busySessions],
];

/**
 * One run in ten with a connector has one of these. Their draws are separate, so that other seeds
 * keep their life.
 */
const RAREST: readonly Focus[] = [leftLater, filledTwice];

/** Most runs with a connector have a focus. @returns whether this one has */
export function drawFocus(setup: Setup, rng: Rng): boolean {
  if (setup.connector === null) return false;
  const rarest = new Rng(setup.seed, 'rarest focus');
  const isRarest = rarest.chance(0.1);
  if (!isRarest && rng.chance(0.4)) return false;
  rng.pick(isRarest ? RAREST : FOCUSES)(setup, rng);
  // Lost blocks make the scheduler forget whole caches, and with them much of the purpose of these
  // runs.
  if (rng.chance(0.8)) setup.faults.blockLost = 0;
  return true;
}

/**
 * One run in four that has neither a focus nor groups has sessions whose steps in flight are
 * dropped. Forced resets drop them, and so does the tail of an answer. More steps of the session
 * come behind, and preemptions.
 */
export function drawDroppedTails({ scheduler, workload, faults }: Setup, rng: Rng): void {
  if (!rng.chance(0.25) || scheduler.kvGroups !== undefined) return;
  scheduler.pipelineDepth = 3;
  scheduler.numSpeculativeTokens = 0;
  scheduler.preemptedOutputs = 'await';
  scheduler.maxNumSeqs = rng.between(3, 6);
  scheduler.numRows = scheduler.maxNumSeqs + 3;
  scheduler.maxNumBatchedTokens = 40;
  scheduler.longPrefillTokenThreshold = 0;
  // A block for every other token or so: they are few, and each step may need one more.
  scheduler.blockSize = rng.between(1, 2);
  scheduler.numBlocks =
    1 + Math.ceil(((scheduler.maxModelLen as number) / scheduler.blockSize) * rng.pick([1.05, 1.3]));
  if (scheduler.deadlines) scheduler.deadlines = { ...scheduler.deadlines, streamingInput: 0 };
  Object.assign(faults, { rowFails: 0, stepFails: 0, connectorThrows: 0 });
  Object.assign(workload, {
    sessions: rng.pick([0.5, 0.9]),
    longestPrompt: 12,
    mostTokens: rng.pick([4, 12]),
    loads: 0,
  });
  Object.assign(workload.weights, {
    chunk: 40,
    endSession: 1,
    abort: 0,
    reset: rng.pick([2, 6, 15]),
    execute: 25,
    update: 20,
  });
}

/**
 * One run in eight that has a connector, and neither a focus nor groups, brings requests to be
 * asked about for the last time. Several synchronous loads of one request are in flight, since
 * resets preempt it. Most fail while the connector asks for patience.
 */
export function drawLastAsks({ scheduler, workload, faults, connector }: Setup, rng: Rng): void {
  if (!rng.chance(0.125) || connector === null || scheduler.kvGroups !== undefined) return;
  Object.assign(scheduler, { pipelineDepth: 3, numSpeculativeTokens: 0, preemptedOutputs: 'deliver' });
  Object.assign(scheduler, {
    loadFailurePolicy: 'recompute',
    maxNumSeqs: 2,
    numRows: 6,
    enablePrefixCaching: true,
  });
  // Every request that is looked at has room.
  scheduler.numBlocks = 400;
  scheduler.deadlines = { load: rng.between(30, 100) };
  Object.assign(workload, {
    isStamped: true,
    reloads: true,
    loads: 1,
    syncLoads: 1,
    asksLater: 0.5,
    stores: 0,
  });
  Object.assign(workload, { mostTokens: 16, sessions: 0, grammars: 0, adapters: 0, timeouts: 0 });
  Object.assign(faults, { loadFails: 0, wholeLoadFails: 0.8, rowFails: 0, stepFails: 0, connectorThrows: 0 });
  Object.assign(workload.weights, {
    add: 10,
    schedule: 40,
    execute: 25,
    update: 15,
    reset: 40,
    abort: 0,
    pause: 0,
  });
}

/**
 * One run in eight that has a connector and groups. Blocks that a load was to fill are released and
 * taken again while steps in flight read it, and it fails. The request that takes them may have
 * been admitted before, and leave.
 */
export function drawRetaken({ scheduler, workload, faults, connector }: Setup, rng: Rng): void {
  if (!rng.chance(0.125) || connector === null) return;
  const size = rng.between(1, 4);
  const window = rng.pick([size, size + 1, 2 * size]);
  // Long prompts take new blocks in each of their steps.
  const chunk = size * rng.between(1, 3);
  const hasFull = rng.chance(0.2);
  scheduler.kvGroups = [{ type: 'sliding', window }, ...(hasFull ? [{ type: 'full' } as const] : [])];
  Object.assign(scheduler, { numSpeculativeTokens: 0, loadFailurePolicy: rng.pick(['fail', 'recompute']) });
  Object.assign(scheduler, { pipelineDepth: 3, blockSize: size, maxModelLen: 40 });
  Object.assign(scheduler, { maxNumSeqs: rng.between(2, 4), numRows: 6, reserveFullIsl: false });
  Object.assign(scheduler, { maxNumBatchedTokens: 3 * chunk, longPrefillTokenThreshold: chunk });
  const needed = Math.ceil((window + 3 * chunk) / size) + 1 + (hasFull ? Math.ceil(40 / size) : 0);
  scheduler.numBlocks = 1 + Math.ceil(needed * rng.pick([1, 1.2]));
  Object.assign(workload, {
    isStamped: true,
    reloads: true,
    loads: 0.6,
    syncLoads: 1,
    stores: 0,
    asksLater: 0,
  });
  Object.assign(workload, { longestPrompt: 36, mostTokens: 10, numFamilies: 4, sessions: 0 });
  Object.assign(faults, { loadFails: 0.5, wholeLoadFails: 0, rowFails: 0, stepFails: 0 });
  Object.assign(faults, { connectorThrows: 0, connectorNonsense: 0, blockLost: 0 });
  const weights = { add: 40, schedule: 80, execute: 15, update: 6, abort: 20 };
  Object.assign(workload.weights, { ...weights, reset: 0, hold: 0, pause: 0 });
}

/**
 * One run in twelve that has groups: requests whose blocks are held find no more of them and cannot
 * be preempted. So a plan computes nothing and releases blocks all the same. The step before it
 * fails.
 */
export function drawHeldUp(setup: Setup, rng: Rng): void {
  if (!rng.chance(1 / 12)) return;
  setup.connector = null;
  const { scheduler, workload, faults } = setup;
  const size = rng.between(1, 4);
  const chunk = 2 * size;
  const maxModelLen = 8 * chunk;
  scheduler.kvGroups = [{ type: 'full' }, { type: 'sliding', window: rng.between(1, size) }];
  Object.assign(scheduler, { numSpeculativeTokens: 0, pipelineDepth: rng.pick([2, 3]), blockSize: size });
  Object.assign(scheduler, { maxNumSeqs: 2, numRows: 6, reserveFullIsl: false, maxModelLen });
  Object.assign(scheduler, { maxNumBatchedTokens: 2 * chunk, longPrefillTokenThreshold: chunk });
  scheduler.numBlocks = 1 + Math.ceil((maxModelLen / size) * rng.pick([1.2, 1.5, 2]));
  Object.assign(workload, { longestPrompt: maxModelLen - 4, mostTokens: 4, sessions: 0, loads: 0 });
  Object.assign(faults, { rowFails: 0, stepFails: 0.2, connectorThrows: 0, blockLost: 0 });
  const weights = { add: 20, schedule: 60, execute: 20, update: 20, hold: 30, complete: 10 };
  Object.assign(workload.weights, { ...weights, abort: 2, reset: 0, pause: 0 });
}
