import { BlockstepError, checkInteger, show } from '../core/errors.js';
import type { Drafts } from './drafts.js';
import type { BlockUse } from './log.js';
import { OUTSTANDING_KINDS, type OutstandingKind } from './outstanding.js';
import type { Plan } from './plan.js';
import type { RequestInput } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import type { StepResult } from './update-pass.js';

const INT32_MAX = 2 ** 31 - 1;
const MAX_NAME = 65_536;

/**
 * Everything about a new request that can be checked without native code; that the prompt's ids are in range is checked
 * once, by the core that copies them.
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT
 */
export function checkRequest(s: SchedulerState, input: RequestInput): RequestInput {
  if (typeof input !== 'object' || input === null) throw bad('request', input, 'an object');
  // Getters run once: what was checked is what is used.
  const request: RequestInput = { ...input };
  const { id, prompt } = request;
  name('id', id, 1);
  checkInt32Array('prompt', prompt);
  if (prompt.length === 0) throw bad('prompt', 'no token', 'at least one token');
  checkInteger('maxTokens', request.maxTokens, 1, INT32_MAX);
  optional('minTokens', request.minTokens, (field, value) =>
    checkInteger(field, value, 0, request.maxTokens),
  );
  optional('eosTokenId', request.eosTokenId, (field, value) => checkInteger(field, value, 0, INT32_MAX - 1));
  optional('ignoreEos', request.ignoreEos, checkBoolean);
  optional('stopTokenIds', request.stopTokenIds, checkStopTokens);
  optional('priority', request.priority, (field, value) => checkInteger(field, value, -INT32_MAX, INT32_MAX));
  optional('arrivalTime', request.arrivalTime, checkFinite);
  optional('cacheSalt', request.cacheSalt, (field, value) => name(field, value, 0));
  optional('adapter', request.adapter, (field, value) => name(field, value, 0));
  if (s.requests.has(id)) {
    throw new BlockstepError('ERR_BLOCKSTEP_DUPLICATE_ID', `id ${show(id)} belongs to an unfinished request`);
  }
  if (s.config.deviations.refuseUnfit) checkFits(s, prompt.length);
  return request;
}

function checkFits(s: SchedulerState, numPrompt: number): void {
  const { maxModelLen } = s.config;
  if (numPrompt >= maxModelLen) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_UNFIT',
      `a prompt of ${numPrompt} tokens leaves no room for output: maxModelLen is ${maxModelLen}`,
    );
  }
  if (numPrompt > s.poolTokens) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_UNFIT',
      `a prompt of ${numPrompt} tokens never fits the pool, which holds ${s.poolTokens}`,
    );
  }
}

/**
 * That the arrays cover every entry of the plan, with as many tokens as the counts say and no more than an entry can
 * bring. Arrays may be longer than that.
 * @returns how many tokens there are
 */
export function checkStepResult(s: SchedulerState, plan: Plan, result: StepResult): number {
  if (typeof result !== 'object' || result === null) throw bad('result', result, 'an object');
  const { tokens, counts, errors } = result;
  const n = plan.numRequests;
  const total = checkFlat(n, counts, tokens, 1 + s.maxDrafts);
  if (s.maxDrafts > 0) checkCounts(plan, counts);
  if (errors === undefined) return total;
  if (!(errors instanceof Uint8Array)) throw bad('errors', errors, 'a Uint8Array');
  if (errors.length < n) throw bad('errors', `length ${errors.length}`, `at least ${n} entries`);
  return total;
}

function checkCounts(plan: Plan, counts: Int32Array): void {
  for (let i = 0; i < plan.numRequests; i++) {
    const most = 1 + plan.numDraftTokens[i];
    if (counts[i] <= most) continue;
    throw bad(`counts[${i}]`, counts[i], `at most ${most}: one token and one for each scheduled draft`);
  }
}

/**
 * That `counts` has `n` entries from 0 to `most`, and `tokens` as many ids from 0 to 2^31 - 2 as they sum up to.
 * @returns that sum
 */
export function checkFlat(n: number, counts: unknown, tokens: unknown, most: number): number {
  checkInt32Array('counts', counts);
  checkInt32Array('tokens', tokens);
  if (counts.length < n)
    throw bad('counts', `length ${counts.length}`, `at least ${n}, one per entry of the plan`);
  let total = 0;
  // The sign bit collects what is wrong with any entry, so that the loops need no branch.
  let wrong = 0;
  for (let i = 0; i < n; i++) {
    const count = counts[i];
    wrong |= count | (most - count);
    total += count;
  }
  if (wrong < 0) throwFirst('counts', counts, n, most);
  if (tokens.length < total)
    throw bad('tokens', `length ${tokens.length}`, `at least ${total}, the sum of counts`);
  for (let i = 0; i < total; i++) wrong |= tokens[i] | (tokens[i] + 1);
  if (wrong < 0) throwFirst('tokens', tokens, total, INT32_MAX - 1);
  return total;
}

function throwFirst(field: string, values: Int32Array, n: number, most: number): never {
  const at = values.subarray(0, n).findIndex((value) => value < 0 || value > most);
  throw bad(`${field}[${at}]`, values[at], `an integer from 0 to ${most}`);
}

/** A plain Int32Array over memory that cannot change its size or belong to two threads. */
export function checkInt32Array(field: string, value: unknown): asserts value is Int32Array {
  if (!(value instanceof Int32Array)) throw bad(field, value, 'an Int32Array');
  const buffer = value.buffer as ArrayBufferLike & { resizable?: boolean; detached?: boolean };
  if (!(buffer instanceof ArrayBuffer))
    throw bad(field, 'one over shared memory', 'an Int32Array of its own');
  if (buffer.resizable) throw bad(field, 'one over a resizable buffer', 'an Int32Array of fixed length');
}

/** Keys of an abort: one or many external ids and handles. */
export function checkAbortKeys(keys: unknown): (string | number)[] {
  const list = typeof keys === 'string' || typeof keys === 'number' ? [keys] : toArray(keys);
  for (const key of list) {
    if (typeof key === 'string') continue;
    checkInteger('handle', key, 0, Number.MAX_SAFE_INTEGER);
  }
  return list as (string | number)[];
}

/** One use of a request's blocks. */
export function checkBlockUse(handle: unknown, kind: unknown, owner: unknown): BlockUse {
  checkInteger('handle', handle, 0, Number.MAX_SAFE_INTEGER);
  if (!OUTSTANDING_KINDS.includes(kind as OutstandingKind)) {
    throw bad('kind', show(kind), `one of ${OUTSTANDING_KINDS.join(', ')}`);
  }
  name('owner', owner, 0);
  return { handle: handle as number, kind: kind as OutstandingKind, owner: owner as string };
}

/** Drafts for the entries of an updated plan. */
export function checkDrafts(s: SchedulerState, plan: Plan, drafts: Drafts): void {
  if (s.pipelined || s.maxDrafts === 0) {
    const { pipelineDepth, numSpeculativeTokens } = s.config;
    const got = `pipelineDepth ${pipelineDepth} and numSpeculativeTokens ${numSpeculativeTokens}`;
    throw bad('drafts', got, 'given only at pipelineDepth 1 with speculative tokens');
  }
  if (typeof drafts !== 'object' || drafts === null) throw bad('drafts', drafts, 'an object');
  checkFlat(plan.numRequests, drafts.counts, drafts.tokens, s.maxDrafts);
}

export function checkResetOptions(options: unknown): boolean {
  if (typeof options !== 'object' || options === null) throw bad('options', options, 'an object');
  const { resetRunning = false } = options as { resetRunning?: unknown };
  if (typeof resetRunning !== 'boolean') throw bad('resetRunning', resetRunning, 'a boolean');
  return resetRunning;
}

export function checkPauseMode(mode: unknown): 'new' | 'all' {
  if (mode === 'new' || mode === 'all') return mode;
  throw bad('mode', show(mode), "'new' or 'all'");
}

function toArray(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null || !(Symbol.iterator in value)) {
    throw bad('ids', value, 'an id, a handle, or an iterable of them');
  }
  return [...(value as Iterable<unknown>)];
}

function optional(field: string, value: unknown, check: (field: string, value: unknown) => unknown): void {
  if (value !== undefined) check(field, value);
}

function name(field: string, value: unknown, minLength: number): void {
  if (typeof value !== 'string') throw bad(field, value, 'a string');
  if (value.length >= minLength && value.length <= MAX_NAME) return;
  throw bad(field, `${value.length} characters`, `a string of ${minLength} to ${MAX_NAME} characters`);
}

function checkBoolean(field: string, value: unknown): void {
  if (typeof value !== 'boolean') throw bad(field, value, 'a boolean');
}

function checkFinite(field: string, value: unknown): void {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw bad(field, value, 'a finite number');
}

function checkStopTokens(field: string, value: unknown): void {
  if (!Array.isArray(value)) throw bad(field, value, 'an array of token ids');
  for (const [i, token] of value.entries()) checkInteger(`${field}[${i}]`, token, 0, INT32_MAX - 1);
}

function bad(field: string, value: unknown, expected: string): BlockstepError {
  const got = typeof value === 'string' ? value : show(value);
  return new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${field} must be ${expected}, got ${got}`);
}
