// Finds a request by handle or id, realigns statuses, drops finished requests.
import { badArgument, show } from '../../base/errors.js';
import { generationOf, slotOf } from '../../core/core.js';
import type { Request } from '../request/request.js';
import type { Container, RequestStatus } from '../request/status.js';
import type { RequestQueue } from './request-queue.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * The founding guards of this project: get and skip, realign, sweep, purge. The scheduler's own
 * code gives them nothing to find. They exist for external events and adapters, which finish a
 * request twice, restamp its status, or name a request that is long gone. A guard counts its
 * findings, so that it does not turn a crash into a silent leak (vllm-omni #3774).
 */

/**
 * Get and skip: the live or draining request that a handle names. If the handle is stale the result
 * is undefined, and an anomaly is counted. A handle names one incarnation: it stays stale when its
 * slot is in use again.
 * @param isRace true: the caller could not know that its request has ended, so that strict mode
 * does not throw
 */
export function getByHandle(s: SchedulerState, handle: number, isRace = false): Request | undefined {
  const request = s.incarnation(handle);
  if (request !== undefined) return request;
  s.anomalies.report(
    'stale-handle',
    `handle ${handle} (slot ${slotOf(handle)}, generation ${generationOf(handle)})`,
    null,
    isRace || s.fenced.has(handle),
  );
  return undefined;
}

/**
 * Get and skip for a client that names a request by external id or handle: the unfinished request.
 * If there is none the result is undefined, and an anomaly is counted. Strict mode throws only for
 * a handle that was never given out, because any other request may have ended during the client's
 * call. An abort of a finished request is skipped: the remaining uses own its blocks (vLLM #25067).
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

/** Whether a handle was ever given to a request. */
function wasGivenOut(s: SchedulerState, handle: number): boolean {
  return handle > slotOf(handle) && handle <= (s.lastHandles[slotOf(handle)] ?? -1);
}

/**
 * Get and skip for a chunk or an end marker: the session that still accepts it. If there is none
 * the result is undefined, and an anomaly is counted. A late event never brings a request back, and
 * a request that was not added as a session never becomes one (vllm-omni #4271).
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
 * Realign: makes the status of each target agree with the container that holds it, before the
 * target is finished. An adapter that parks and restores requests restamps statuses. vLLM then
 * searches the wrong queue, and the request stays in `running` for ever. Here requests are removed
 * by membership, so the repair matters only to readers of the status.
 * @returns the number of repaired statuses
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

/** Whether a request is RUNNING exactly if it is in `running`, and waits for input exactly if it is in `idle`. */
function isAligned(status: RequestStatus, container: Container, isIdle: boolean): boolean {
  if ((status === 'RUNNING') !== (container === 'running')) return false;
  return (status === 'WAITING_FOR_STREAMING_REQ') === isIdle;
}

/**
 * Sweep: after a finish, drops finished and untracked requests from `running`; the others keep
 * their order.
 * @returns the number of dropped requests
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
 * Purge: keeps the live requests of a parked queue, in order. Then it calls `onPurged`, which may
 * park and throw, once for each of the others. It must be run both when parked requests are
 * processed and when they are restored, because a request can be finished in between. The map of
 * live requests is a required argument, so that no caller can omit it.
 * @returns the number of purged requests
 * @throws ERR_BLOCKSTEP_BAD_ARG; the error of `onPurged`
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

/**
 * Purge at admission: drops a finished or untracked request from a waiting queue (vLLM #52969).
 * @returns whether it was dropped
 */
export function dropZombie(s: SchedulerState, queue: RequestQueue, request: Request): boolean {
  if (isLive(s.requests, request)) return false;
  // Foreign code may have cleared `container`, so it is set again from the queue where the request
  // was found.
  request.container = queue === s.queues.waiting ? 'waiting' : 'skipped';
  s.queues.remove(request);
  s.anomalies.report('purged-untracked', `request ${request.id} (${request.status})`, request);
  return true;
}

/**
 * Purges both waiting queues and the requests that are set apart. Strict mode runs it before a
 * step, which then throws with nothing planned.
 */
export function purgeWaiting(s: SchedulerState): void {
  for (const queue of [s.queues.waiting, s.queues.skipped]) {
    for (const request of queue.toArray()) dropZombie(s, queue, request);
  }
  const { idle, loading, deferred } = s.queues;
  for (const request of [...idle, ...loading, ...deferred]) dropZombie(s, s.queues.skipped, request);
}

/** Whether a request is unfinished, and is the tracked incarnation of its id. */
export function isLive(live: ReadonlyMap<string, Request>, request: Request): boolean {
  return !request.isFinished && live.get(request.id) === request;
}
