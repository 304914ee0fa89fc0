import { badArgument, show } from '../../base/errors.js';
import { generationOf, slotOf } from '../../core/core.js';
import type { Container, Request } from '../request/request.js';
import type { RequestStatus } from '../request/status.js';
import type { RequestQueue } from './request-queue.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * The guards this project was founded on. In our own rooms they find nothing; they are for the events and adapters of
 * others, which finish a request twice, restamp its status or name one that is long gone. What a guard finds it counts,
 * so that a crash never becomes a silent leak instead (vllm-omni #3774).
 */

/**
 * Get and skip: the live or draining request that a handle names, or undefined, counted, when the handle is stale.
 * A handle names one incarnation: that its slot is in use again does not make it valid.
 * @param isRace whoever names it could not know that its request has ended, so that strict mode does not throw
 */
export function getByHandle(s: SchedulerState, handle: number, isRace = false): Request | undefined {
  const request = s.incarnation(handle);
  if (request !== undefined) return request;
  s.anomalies.report(
    'stale-handle',
    `handle ${handle} (slot ${slotOf(handle)}, generation ${generationOf(handle)})`,
    null,
    isRace,
  );
  return undefined;
}

/**
 * Get and skip for what a client says by external id or handle: the unfinished request, or undefined, counted. In strict mode
 * only a handle that was never given out is thrown: any other request may have ended while the client spoke.
 * An abort of a finished request is ignored: whatever still uses its blocks owns them (vLLM #25067).
 */
export function getUnfinished(
  s: SchedulerState,
  key: string | number,
  event: 'abort' | 'chunk' | 'end',
): Request | undefined {
  if (typeof key === 'string') {
    const request = s.requests.get(key);
    if (request === undefined) s.anomalies.report(`${event}-unknown`, `no unfinished request has id ${key}`);
    return request;
  }
  const request = getByHandle(s, key, wasGivenOut(s, key));
  if (request?.isFinished) {
    s.anomalies.report(`${event}-finished`, `request ${request.id} has finished`, request);
    return undefined;
  }
  return request;
}

/** Whether a handle names a request that there is or was, and not one that never was. */
function wasGivenOut(s: SchedulerState, handle: number): boolean {
  return handle > slotOf(handle) && handle <= (s.lastHandles[slotOf(handle)] ?? -1);
}

/**
 * Get and skip for a chunk or an end marker: the session that still takes it, or undefined, counted. Nothing that comes
 * late brings a request back, and nothing becomes a session that was not added as one (vllm-omni #4271).
 */
export function getOpenSession(
  s: SchedulerState,
  key: string | number,
  event: 'chunk' | 'end',
): Request | undefined {
  const request = getUnfinished(s, key, event);
  if (request === undefined) return undefined;
  if (request.session === null) {
    s.anomalies.report(`${event}-not-resumable`, `request ${request.id} is no session`, request);
    return undefined;
  }
  if (request.session.ended) {
    const reason = event === 'chunk' ? 'chunk-after-end' : 'duplicate-end';
    s.anomalies.report(reason, `the end of session ${request.id} was announced`, request);
    return undefined;
  }
  return request;
}

/**
 * Realign: makes the status of each target agree with the container that holds it, before it is finished. An adapter
 * that parks and restores requests restamps statuses; vLLM then searches the wrong queue and the request stays in
 * `running` for ever. Our removal goes by membership, so this repairs only what others read.
 * @returns how many were repaired
 */
export function realignStatuses(s: SchedulerState, targets: Iterable<Request>): number {
  let repaired = 0;
  for (const request of targets) {
    if (request.isFinished) continue;
    const { container, status } = request;
    const isIdle = s.queues.idle.has(request);
    if (container === null || isAligned(status, container, isIdle)) continue;
    if (isIdle) request.status = 'WAITING_FOR_STREAMING_REQ';
    else if (container === 'running') request.status = 'RUNNING';
    else request.status = request.numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';
    repaired++;
    s.anomalies.report('realigned-status', `request ${request.id} was ${status} in ${container}`, request);
  }
  return repaired;
}

/** Running exactly in `running`, waiting for input exactly in `idle`. */
function isAligned(status: RequestStatus, container: Container, isIdle: boolean): boolean {
  if ((status === 'RUNNING') !== (container === 'running')) return false;
  return (status === 'WAITING_FOR_STREAMING_REQ') === isIdle;
}

/**
 * Sweep: drops from `running` what is finished or untracked, order kept, after a finish.
 * @returns how many were dropped
 */
export function sweepRunning(s: SchedulerState): number {
  const { running } = s.queues;
  let zombies = 0;
  for (const request of running) {
    if (isLive(s.requests, request)) continue;
    request.container = null;
    zombies++;
  }
  if (zombies === 0) return 0;
  s.queues.dropDetached();
  for (let i = 0; i < zombies; i++)
    s.anomalies.report('swept-running', 'a finished request stood in running');
  return zombies;
}

/**
 * Purge: keeps the requests of a parked queue that are live, in order; then `onPurged` is called once for each of the
 * others, and may park and throw as it likes. To be run both when parked requests are processed and when they are
 * restored: a request can be finished in between. The map of live requests is required, so that no caller can leave it
 * out.
 * @returns how many were purged
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function purgeUntracked(
  parked: Request[],
  live: ReadonlyMap<string, Request>,
  onPurged: (request: Request) => void,
): number {
  if (!Array.isArray(parked)) throw badArgument('parked', show(parked), 'an array of requests');
  if (!(live instanceof Map)) throw badArgument('live', show(live), 'the map of live requests');
  if (typeof onPurged !== 'function') throw badArgument('onPurged', show(onPurged), 'a function');
  const purged = parked.filter((request) => !isLive(live, request));
  if (purged.length === 0) return 0;
  parked.splice(0, parked.length, ...parked.filter((request) => isLive(live, request)));
  for (const request of purged) onPurged(request);
  return purged.length;
}

/** Purge at admission: a finished or untracked request in a waiting queue is dropped (vLLM #52969). */
export function dropZombie(s: SchedulerState, queue: RequestQueue, request: Request): boolean {
  if (isLive(s.requests, request)) return false;
  // A foreign hand may have cleared the mark, so it is set again from where the request was found.
  request.container = queue === s.queues.waiting ? 'waiting' : 'skipped';
  s.queues.remove(request);
  s.anomalies.report('purged-untracked', `request ${request.id} (${request.status})`, request);
  return true;
}

/** Purge of both waiting queues as a whole. Strict mode runs it before a step, which then throws with nothing planned. */
export function purgeWaiting(s: SchedulerState): void {
  for (const queue of [s.queues.waiting, s.queues.skipped]) {
    for (const request of queue.toArray()) dropZombie(s, queue, request);
  }
  const { idle, loading, deferred } = s.queues;
  for (const request of [...idle, ...loading, ...deferred]) dropZombie(s, s.queues.skipped, request);
}

/** Tracked, unfinished, and this very incarnation. */
export function isLive(live: ReadonlyMap<string, Request>, request: Request): boolean {
  return !request.isFinished && live.get(request.id) === request;
}
