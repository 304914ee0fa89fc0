import { BlockstepError } from '../../base/errors.js';
import { isLoading } from '../request/load.js';
import { isUsed } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { Container } from '../request/status.js';
import { NO_DEADLINE } from '../request/wait.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Checks the scheduler's own invariants, then those of the native core. Each tracked request is in
 * the container that it names and in no other. Its status agrees with the container. A finished
 * request is in no container, and holds blocks only while something uses them. Counts equal those
 * of the native side.
 * @throws ERR_BLOCKSTEP_INVARIANT naming the broken invariant
 */
export function verifyScheduler(s: SchedulerState): void {
  const { queues } = s;
  const seen = new Set<Request>();
  const containers: [Container, readonly Request[]][] = [
    ['running', queues.running],
    ['waiting', queues.waiting.toArray()],
    ['skipped', queues.allSkipped()],
    ['lent', [...queues.lent.keys()]],
  ];
  for (const [name, requests] of containers) {
    for (const request of requests) {
      expect(!seen.has(request), request, `stands in two containers, the second is ${name}`);
      seen.add(request);
      expect(request.container === name, request, `stands in ${name} but names ${request.container}`);
      expect(s.requests.get(request.id) === request, request, `stands in ${name} but is not tracked`);
      const waits = s.borrower !== null && request.status === 'WAITING_FOR_CHUNK';
      expect(
        waits || name === 'lent' || (request.status === 'RUNNING') === (name === 'running'),
        request,
        `is ${request.status} in ${name}`,
      );
    }
  }
  verifyBacklog(s);
  s.core.flush();
  for (const request of s.requests.values()) {
    expect(seen.has(request), request, 'is tracked but stands in no container');
    expect(!request.isFinished, request, 'is tracked and finished');
    verifyWait(s, request);
    verifyCounts(s, request);
  }
  const live = s.deadlines.requests.filter((request) => !s.draining.has(request));
  for (const request of [...s.structured, ...live]) {
    expect(
      s.requests.get(request.id) === request,
      request,
      'is not tracked, but its grammar or its deadline is',
    );
  }
  for (const request of s.deadlines.requests) {
    expect(s.deadlines.isInPlace(request), request, 'stands in the wrong place among the deadlines');
  }
  for (const request of [...s.draining, ...s.quarantined]) {
    expect(request.isFinished, request, 'drains and is not finished');
    expect((request.outstanding?.size ?? 0) > 0, request, 'drains though nothing uses its blocks');
    expect(!(s.draining.has(request) && s.quarantined.has(request)), request, 'drains and is quarantined');
    expect(s.bySlot[request.slot] === request, request, 'drains without its slot');
  }
  for (const request of s.bySlot) {
    if (request === undefined) continue;
    const used = s.usedRequests.has(request);
    expect(isUsed(request) === used, request, `has blocks in use: ${isUsed(request)}, is noted: ${used}`);
  }
  for (const request of s.usedRequests) {
    expect(s.bySlot[request.slot] === request, request, 'is gone though something uses its blocks');
  }
  for (const request of s.drainingRows) {
    expect(s.draining.has(request), request, 'may have a row, and does not drain');
  }
  for (const request of s.withLoad) {
    const isKnown = s.requests.get(request.id) === request && request.load !== null;
    expect(isKnown && request.status === 'WAITING_FOR_REMOTE_KVS', request, `loads and is ${request.status}`);
    expect(queues.loading.has(request) || !isLoading(request), request, 'is being loaded in the queue');
  }
  for (const request of queues.deferred) {
    expect(
      request.asksLater && s.connector !== null,
      request,
      'stands apart though no connector will wake it',
    );
  }
  for (const request of queues.loading) {
    expect(s.withLoad.has(request) && isLoading(request), request, 'stands apart though nothing is loaded');
  }
  s.core.native.verify();
}

/** Checks where a request waits, and its deadlines. */
function verifyWait(s: SchedulerState, request: Request): void {
  const { queues } = s;
  const { status, session, grammar, numTokens, numComputedTokens } = request;
  const container = queues.placeOf(request);
  const isIdle = s.queues.idle.has(request);
  const needsGrammar = status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR';
  expect(isIdle === (status === 'WAITING_FOR_STREAMING_REQ'), request, `is ${status}, idle: ${isIdle}`);
  expect(s.structured.has(request) === (grammar !== null), request, 'has a grammar, or is noted to have one');
  expect(!needsGrammar || (grammar !== null && numComputedTokens === 0), request, `is ${status} in vain`);
  if (isIdle) {
    const idle = session !== null && !session.ended && session.queue.length === 0;
    expect(idle, request, 'waits for input that is there or will not come');
    const isUncomputed = numTokens === 0 ? numComputedTokens === 0 : numComputedTokens < numTokens;
    expect(isUncomputed, request, 'waits for input with its last token computed');
    expect(request.numOutputPlaceholders === 0, request, 'waits for input and for steps in flight');
    expect(request.numDraftTokens === 0, request, 'waits for input with drafts');
    const gives = numComputedTokens > 0 && !isUsed(request);
    expect(
      !gives || queues.idleHolders.has(request),
      request,
      'waits for input with blocks that nobody can take',
    );
  }
  if (session !== null) {
    const queued = session.queue.reduce((sum, { prompt }) => sum + prompt.length, 0);
    expect(
      session.numQueuedTokens === queued,
      request,
      `has ${queued} queued tokens, counts ${session.numQueuedTokens}`,
    );
  }
  const loaded = s.connector !== null;
  const holds = container === 'running' || session !== null || loaded || numComputedTokens === 0;
  expect(holds, request, `has ${numComputedTokens} computed tokens in ${container}`);
  const loads = s.withLoad.has(request);
  expect(loads === (status === 'WAITING_FOR_REMOTE_KVS'), request, `is ${status}, loading: ${loads}`);
  expect(loads === (request.load !== null), request, 'has a load, or is noted to have one');
  const used = (request.outstanding?.size ?? 0) > 0;
  expect(request.keptBlocks === null || used, request, 'keeps blocks that nothing uses');
  const { streamingInput, grammar: compilation, load } = s.config.deadlines;
  const timeout = isIdle
    ? streamingInput
    : needsGrammar
      ? compilation
      : queues.loading.has(request) || request.asksLater
        ? load
        : 0;
  const { waitDeadline, queueDeadline, wholeDeadline } = request;
  const wait = timeout > 0 ? request.waitingSince + timeout : NO_DEADLINE;
  // The next answer of its connector decides when that deadline is over.
  const isDue = request.asksLater && !queues.deferred.has(request) && s.now >= wait;
  const isLet = isDue && waitDeadline === NO_DEADLINE;
  expect(isLet || waitDeadline === wait, request, `has wait deadline ${waitDeadline}, not ${wait}`);
  const isQueued = container !== 'running' && !isIdle && s.config.deadlines.queue > 0;
  expect((queueDeadline !== NO_DEADLINE) === isQueued, request, `has queue deadline ${queueDeadline}`);
  const isLimited = request.timeoutMs !== NO_DEADLINE && !isIdle;
  expect((wholeDeadline !== NO_DEADLINE) === isLimited, request, `has its own deadline ${wholeDeadline}`);
  const deadline = Math.min(waitDeadline, queueDeadline, wholeDeadline);
  expect(request.deadline === deadline, request, `has deadline ${request.deadline}, not ${deadline}`);
  const stands = deadline !== NO_DEADLINE;
  expect(request.deadlineIndex >= 0 === stands, request, `has deadline index ${request.deadlineIndex}`);
}

function verifyCounts(s: SchedulerState, request: Request): void {
  const { slot, handle, numTokens, numComputedTokens, numOutputPlaceholders } = request;
  const { native } = s.core;
  expect(s.bySlot[slot] === request, request, `is not the request of slot ${slot}`);
  expect(native.handle(slot) === handle, request, `has handle ${handle}, its slot ${native.handle(slot)}`);
  expect(
    native.numTokens(slot) === numTokens,
    request,
    `has ${numTokens} tokens, its slot ${native.numTokens(slot)}`,
  );
  expect(numOutputPlaceholders >= 0, request, `has ${numOutputPlaceholders} placeholders`);
  expect(numComputedTokens >= 0, request, `has ${numComputedTokens} computed tokens`);
  const covered = Math.min(
    ...s.groups.list.map(
      (group, g) => Math.max(s.core.blocks(slot, g).length - group.numSpeculativeBlocks, 0) * group.blockSize,
    ),
  );
  expect(
    covered >= Math.min(numComputedTokens, s.config.maxModelLen),
    request,
    `computed ${numComputedTokens} tokens, holds blocks for ${covered}`,
  );
}

function expect(holds: boolean, request: Request, what: string): void {
  if (!holds)
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `request ${JSON.stringify(request.id)} ${what}`);
}

/**
 * Checks the sums over the requests that were never admitted. Requests that an engine is about to abort leave the
 * backlog before they end.
 */
function verifyBacklog({ requests, backlog }: SchedulerState): void {
  const waiting = [...requests.values()].filter(({ backlogTokens }) => backlogTokens > 0);
  const tokens = waiting.reduce((sum, { backlogTokens }) => sum + backlogTokens, 0);
  if (waiting.length === backlog.requests && tokens === backlog.tokens) return;
  throw new BlockstepError(
    'ERR_BLOCKSTEP_INVARIANT',
    `${waiting.length} requests with ${tokens} tokens were never admitted, counted are ${backlog.requests} with ${backlog.tokens}`,
  );
}
