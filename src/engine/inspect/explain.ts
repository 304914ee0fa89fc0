import { badArgument, describeError, show } from '../../base/errors.js';
import type { PlaceInLine } from '../../scheduler/inspect/inspection.js';
import { nameOfGroup } from '../../scheduler/options/group-name.js';
import { isUsed } from '../../scheduler/request/outstanding.js';
import type { Request } from '../../scheduler/request/request.js';
import { type Deadlines, NO_DEADLINE, type WaitReason } from '../../scheduler/request/wait.js';
import type { EngineState } from '../state/engine-state.js';

/**
 * What a request waits for and since when, as text for people; the wording may change. The cost is
 * bounded, except for an id of no unfinished request: then all finished requests whose blocks are
 * still in use are searched.
 * @param key the request's id, or its handle
 * @param isDriven whether the engine drives itself, or a step was made before
 * @throws ERR_BLOCKSTEP_BAD_ARG for a key that is neither
 */
export function explain(e: EngineState, key: string | number, isDriven: boolean): string {
  if (typeof key !== 'string' && !(typeof key === 'number' && Number.isSafeInteger(key) && key >= 0)) {
    throw badArgument('id', show(key), 'an id or a handle');
  }
  const request = find(e, key);
  if (request === undefined) {
    return `${name(key)} is not known: it was never submitted, or it has ended and left nothing behind`;
  }
  const words = `${name(request.id)}, ${progress(request)}: ${state(e, request, isDriven)}${holdings(e, request)}${timeLeft(e, request)}`;
  if (e.disposed) return `${words}; the engine was disposed`;
  return e.poison === null ? words : `${words}; the engine is broken: ${e.poison.message}`;
}

function find({ scheduler }: EngineState, key: string | number): Request | undefined {
  if (typeof key === 'number') return scheduler.getByHandle(key);
  return scheduler.get(key) ?? scheduler.inspect().findFinished(key);
}

/** The running deadlines of a request, with the milliseconds left. */
function timeLeft(e: EngineState, request: Request): string {
  const { queueDeadline, waitDeadline, wholeDeadline } = request;
  const reason = request.isFinished ? 'reclaim' : WAIT_DEADLINES[request.waitReason ?? 'admission'];
  const running: string[] = [];
  const add = (what: string, deadline: number): void => {
    if (deadline === NO_DEADLINE) return;
    running.push(`${Math.max(0, Math.round(deadline - e.now()))} ms of ${what}`);
  };
  add(`deadlines.${reason}`, waitDeadline);
  add('deadlines.queue', queueDeadline);
  add('its timeoutMs', wholeDeadline);
  return running.length === 0 ? '' : `; left: ${running.join(', ')}`;
}

/** The deadline that limits each kind of wait. */
const WAIT_DEADLINES: Readonly<Record<WaitReason, keyof Deadlines>> = {
  admission: 'queue',
  resumption: 'queue',
  adapter: 'queue',
  grammar: 'grammar',
  'streaming-input': 'streamingInput',
  connector: 'load',
  'remote-kv': 'load',
  chunk: 'queue',
};

function progress(request: Request): string {
  const { numPromptTokens, numOutputTokens, maxTokens, numPreemptions, numAnomalies, lastAnomaly } = request;
  const anomalies = numAnomalies === 0 ? '' : `, ${numAnomalies} anomalies, the last: ${lastAnomaly}`;
  const preempted = numPreemptions === 0 ? '' : `, preempted ${times(numPreemptions)}`;
  return `${numPromptTokens} prompt tokens, ${numOutputTokens} of at most ${maxTokens} generated${preempted}${anomalies}`;
}

function state(e: EngineState, request: Request, isDriven: boolean): string {
  if (request.isFinished) {
    const given = e.scheduler.inspect().quarantined.includes(request) ? 'quarantined, ' : '';
    const ended = `finished (${request.finishReason}) ${ago(e, request.finishedAt)}`;
    return `${ended}, ${given}its blocks are still used by ${uses(e, request)}`;
  }
  if (e.scheduler.aborts.has(request)) {
    return `${e.stops.has(request) ? 'stopped' : 'aborted'}, its blocks go back before the next step`;
  }
  if (request.waitReason === 'chunk') return 'waiting for a chunk: its borrowing adapter holds it up';
  if (request.container === 'running') return running(e, request, isDriven);
  const since = `for ${ms(e, request.waitingSince)}`;
  switch (request.waitReason) {
    case 'remote-kv':
      return isUsed(request)
        ? `waiting ${since} for KV blocks that are being loaded: ${uses(e, request)}`
        : `waiting ${since} for KV blocks that were loaded; ${nextStep(e, isDriven, 'it goes on when a step reaches it')}`;
    case 'connector':
      return `waiting ${since} for its connector to say what it can load`;
    case 'grammar':
      return `waiting ${since} for its grammar`;
    case 'streaming-input':
      return `waiting ${since} for the next chunk of its session`;
    default:
      return waiting(e, request, isDriven);
  }
}

/** The uses of the request's blocks besides its own, each with its age. */
function uses(e: EngineState, { outstanding }: Request): string {
  const all = outstanding?.uses() ?? [];
  return all.map(({ kind, owner, since }) => `${kind}:${owner} for ${ms(e, since)}`).join(', ');
}

function running(e: EngineState, request: Request, isDriven: boolean): string {
  const step = e.flight.find(({ plan }) => plan.indexOf(request) >= 0);
  const computed = Math.min(request.numComputedTokens, request.numPromptTokens);
  const doing =
    request.numOutputTokens > 0 || computed === request.numPromptTokens
      ? 'running'
      : `running, ${computed} prompt tokens scheduled`;
  const since = `first scheduled ${ago(e, request.firstScheduledAt)}`;
  if (step !== undefined) {
    return `${doing}, ${since}; in flight in step ${step.number}, submitted to the executor ${ago(e, step.submittedAt)}`;
  }
  return `${doing}, ${since}; ${e.pauseMode === 'all' ? 'everything is paused' : nextStep(e, isDriven, 'it is due in the next step')}`;
}

function waiting(e: EngineState, request: Request, isDriven: boolean): string {
  const place = e.scheduler.placeInLine(request);
  const { ahead, isExact, length } = place;
  const position = isExact ? `place ${ahead + 1} of ${length}` : `behind at least ${ahead} of ${length}`;
  const what = request.status === 'PREEMPTED' ? 'preempted and waiting to be computed again' : 'waiting';
  const where = `${what} for ${ms(e, request.waitingSince)}, ${position} in the queue`;
  try {
    return `${where}; ${whyNotAdmitted(e, request, place, isDriven)}`;
  } catch (error) {
    // `whyNotAdmitted` asks native code, which may be broken.
    return `${where}; why cannot be said: ${describeError(error)}`;
  }
}

/** The first obstacle to a request's admission, in the order of the scheduler's checks. */
function whyNotAdmitted(e: EngineState, request: Request, { head }: PlaceInLine, isDriven: boolean): string {
  const { scheduler } = e;
  const { config, core } = scheduler;
  if (e.pauseMode === 'all') return 'everything is paused';
  if (e.pauseMode === 'new') return 'admission is paused';
  const stream = e.streams.of(request);
  if (stream !== undefined && stream.submittedRound === e.rounds) return nextStep(e, isDriven);
  if (scheduler.freeSeats <= 0) return `${seated(scheduler)}, the most that maxNumSeqs allows`;
  if (e.disposed || e.poison !== null) return 'no step will be made';
  if (request.waitsForAdapter) return `${config.maxLoras} other adapters run, the most that maxLoras allows`;
  if (core.rowsInUse >= config.numRows) return `all ${config.numRows} rows of the KV slot table are in use`;
  if (scheduler.awaitsOutputs(request)) return 'steps from before its preemption still bring its outputs';
  const lack = lackOf(e, head);
  if (lack !== null)
    return `${head === request ? 'it' : `${name(head.id)} at the head of the queue`} ${lack}`;
  if (e.lastStep.preempted > 0) return 'the last step preempted requests, and so admitted none';
  if (e.lastStep.totalTokens >= config.maxNumBatchedTokens) {
    return `the last step used its whole budget of ${config.maxNumBatchedTokens} tokens`;
  }
  return nextStep(e, isDriven);
}

/** The holders of the `maxNumSeqs` seats. */
function seated({ numRunning, freeSeats, config }: EngineState['scheduler']): string {
  const numIdle = config.maxNumSeqs - freeSeats - numRunning;
  const run = `${numRunning} requests run`;
  return numIdle > 0 ? `${run} and ${numIdle} sessions wait for input` : run;
}

/**
 * Why a waiting request cannot get blocks, by KV cache group where there are several; null if it
 * could.
 */
function lackOf({ scheduler }: EngineState, request: Request): string | null {
  const { core, config } = scheduler;
  const needed = scheduler.freeBlocksToAdmit(request);
  if (needed === null) return 'found a state in the cache that the last step makes, and had to wait for it';
  const numNeeded = Array.from(needed).reduce((sum, blocks) => sum + blocks, 0);
  const spare = scheduler.blocksToSpare();
  if (numNeeded + spare <= core.freeBlocks) return null;
  const groups = config.kvGroups?.list ?? [];
  const parts = groups.length < 2 ? [] : groups.map((group, g) => `${nameOfGroup(group)}: ${needed[g]}`);
  const byGroup = parts.length === 0 ? '' : ` (${parts.join(', ')})`;
  const beside = spare === 0 ? '' : `, beside the ${spare} of the watermark`;
  return `needs ${numNeeded} free blocks${byGroup}${beside}, there are ${core.freeBlocks}`;
}

/** The blocks of a request by KV cache group; empty if there is one group, or if it holds none. */
function holdings({ scheduler, disposed }: EngineState, request: Request): string {
  if (scheduler.config.kvGroups === null || disposed) return '';
  try {
    const held = scheduler.inspect().holdingsOf(request);
    if (held.every(({ places }) => places === 0)) return '';
    const parts = held.map(({ name: group, blocks, places }) =>
      blocks === places ? `${group}: ${blocks}` : `${group}: ${blocks} in ${places} places`,
    );
    return `; holds blocks (${parts.join(', ')})`;
  } catch {
    // The scheduler or its native code is broken, which is reported elsewhere.
    return '';
  }
}

function nextStep(e: EngineState, isDriven: boolean, then?: string): string {
  const { flight, scheduler } = e;
  if (e.disposed || e.poison !== null) return 'no step will be made';
  if (flight.length >= scheduler.config.pipelineDepth) {
    return `the next step is made when the executor has answered step ${flight[0].number}, submitted ${ago(e, flight[0].submittedAt)}`;
  }
  const { call, next, now } = e.words;
  if (now !== null) return now;
  if (!isDriven) return `nobody makes the next step: call run() or ${call}`;
  return then ?? next;
}

function name(key: string | number): string {
  return `request ${show(key)}`;
}

function ago(e: EngineState, time: number): string {
  return `${ms(e, time)} ago`;
}

function ms(e: EngineState, since: number): string {
  return `${Math.max(0, Math.round(e.now() - since))} ms`;
}

function times(n: number): string {
  return n === 1 ? 'once' : `${n} times`;
}
