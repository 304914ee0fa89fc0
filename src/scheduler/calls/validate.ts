// Checks the arguments of the calls of a scheduler, except requests and chunks.
import type { Anomalies } from '../../base/anomalies.js';
import { parseInt32Array, parseUint8Array } from '../../base/arrays.js';
import { checkBoolean, checkName } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, insteadOf } from '../../base/known-names.js';
import { TOKEN_MAX } from '../../core/core.js';
import type { ConnectorOutput } from '../connector/connector.js';
import { type ParsedOutput, parseOutput } from '../connector/connector-output.js';
import { RESET_OPTIONS } from '../options/option-names.js';
import type { ResetOptions } from '../options/reset.js';
import type { Plan } from '../plan/plan.js';
import { type Drafts, ParsedResult, type StepResult } from '../plan/step-result.js';
import type { BlockUse } from '../request/outstanding.js';
import { OUTSTANDING_KINDS, type OutstandingKind } from '../request/outstanding.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { CONNECTOR_OUTPUT_FIELDS } from './request-names.js';

/**
 * Checks the result of a step. Its arrays must cover every entry of the plan. They must have as
 * many tokens as `counts` adds up to, and no more than each entry can produce. Arrays may be longer
 * than needed. A result that was checked is not checked again: the engine checks an answer itself,
 * because wrong rows fail alone there.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseStepResult(plan: Plan, result: StepResult): ParsedResult {
  if (result instanceof ParsedResult) return result;
  if (typeof result !== 'object' || result === null) throw badArgument('result', show(result), 'an object');
  return goodRows(readRows(plan.numRequests, result), plan.numRequests, plan.maxOutputTokens);
}

/**
 * Checks drafts for the entries of a plan that was just updated (`pipelineDepth` 1).
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseDrafts(s: SchedulerState, plan: Plan, drafts: Drafts): ParsedResult {
  return draftsOf(s, plan, drafts, !s.pipelined, 'given only at pipelineDepth 1 with speculative tokens');
}

/**
 * Checks drafts for the entries of a plan in flight, made by the step before it (`pipelineDepth` 2 or 3).
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseReplacedDrafts(s: SchedulerState, plan: Plan, drafts: Drafts): ParsedResult {
  return draftsOf(
    s,
    plan,
    drafts,
    s.pipelined,
    'replaced only at pipelineDepth 2 or 3 with speculative tokens',
  );
}

/**
 * Checks drafts for the entries of a plan.
 * @param isWanted whether such drafts are accepted at this pipeline depth
 * @param when a description of that depth, for the message
 */
function draftsOf(
  s: SchedulerState,
  plan: Plan,
  drafts: Drafts,
  isWanted: boolean,
  when: string,
): ParsedResult {
  if (!isWanted || s.maxDrafts === 0) {
    const { pipelineDepth, numSpeculativeTokens } = s.config;
    const got = `pipelineDepth ${pipelineDepth} and numSpeculativeTokens ${numSpeculativeTokens}`;
    throw badArgument('drafts', got, when);
  }
  if (typeof drafts !== 'object' || drafts === null) throw badArgument('drafts', show(drafts), 'an object');
  return goodRows(readTokens(plan.numRequests, drafts), plan.numRequests, plan.maxNextDrafts);
}

/** The same rows. @throws ERR_BLOCKSTEP_BAD_ARG for the first of `n` that is wrong; see `judgeRows` */
function goodRows(parsed: ParsedResult, n: number, most: Uint8Array): ParsedResult {
  if (judgeRows(parsed, n, most) === 'wrong') throw faultOf(parsed, n, most);
  return parsed;
}

/**
 * Checks that a result has `tokens` and `counts`. If one is missing, the message names the field
 * that was probably meant. Other names in a complete result are not checked: that would cost time
 * in every step, and an executor may return more than is read.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkFlatFields(result: object, tokens: unknown, counts: unknown): void {
  if (tokens === undefined) throw lacksField(result, 'tokens');
  if (counts === undefined) throw lacksField(result, 'counts');
}

function lacksField(result: object, field: string): Error {
  return badArgument(field, `undefined${insteadOf(result, field)}`, 'an Int32Array');
}

/**
 * Reads the arrays of a result, and checks that they have `n` rows.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a result of another form
 */
export function readRows(n: number, result: StepResult): ParsedResult {
  const { errors } = result;
  const parsed = readTokens(n, result);
  if (errors === undefined) return parsed;
  parsed.errors = parseUint8Array('errors', errors);
  checkRows('errors', parsed.errors, n);
  return parsed;
}

function readTokens(n: number, rows: Drafts): ParsedResult {
  const { tokens, counts } = rows;
  checkFlatFields(rows, tokens, counts);
  const parsed = new ParsedResult(parseInt32Array('tokens', tokens), parseInt32Array('counts', counts));
  checkRows('counts', parsed.counts, n);
  return parsed;
}

/** @throws ERR_BLOCKSTEP_BAD_ARG if an array has fewer than `n` entries */
export function checkRows(name: string, { length }: { length: number }, n: number): void {
  if (length >= n) return;
  throw badArgument(name, `${length} entries`, `at least ${n} entries, one for each of the plan`);
}

/**
 * Judges `n` rows. Each count must be from 0 to `most[i]`. There must be as many token ids as the
 * counts add up to, each from 0 to 2^31 - 2. Notes the sum of the counts.
 * @returns `short`: some row has no token though one is due
 */
export function judgeRows(parsed: ParsedResult, n: number, most: Uint8Array): 'good' | 'short' | 'wrong' {
  const { tokens, counts } = parsed;
  let total = 0;
  // The sign bit collects the faults of all entries, so that the loops need no branch.
  let wrong = 0;
  let short = 0;
  for (let i = 0; i < n; i++) {
    const count = counts[i];
    wrong |= count | (most[i] - count);
    short |= (count - 1) & (0 - most[i]);
    total += count;
  }
  parsed.numTokens = total;
  if (wrong < 0 || tokens.length < total) return 'wrong';
  for (let i = 0; i < total; i++) wrong |= tokens[i] | (tokens[i] + 1);
  if (wrong < 0) return 'wrong';
  return short < 0 ? 'short' : 'good';
}

/** The first fault of wrong rows. */
function faultOf({ tokens, counts, numTokens }: ParsedResult, n: number, most: Uint8Array): Error {
  for (let i = 0; i < n; i++)
    if (counts[i] < 0 || counts[i] > most[i]) return notIn('counts', counts, i, most[i]);
  if (tokens.length < numTokens)
    return badArgument('tokens', `${tokens.length} ids`, `at least ${numTokens} ids, the sum of counts`);
  const at = tokens.findIndex((token) => token < 0 || token > TOKEN_MAX);
  return notIn('tokens', tokens, at, TOKEN_MAX);
}

function notIn(field: string, values: Int32Array, at: number, most: number): Error {
  return badArgument(`${field}[${at}]`, String(values[at]), `an integer from 0 to ${most}`);
}

/**
 * Parses the keys of an abort: one external id or handle, or an iterable of them.
 * @throws ERR_BLOCKSTEP_BAD_ARG; the error of the iterator
 */
export function parseAbortKeys(keys: unknown): (string | number)[] {
  if (typeof keys === 'string') return [keys];
  const list = typeof keys === 'number' ? [keys] : parseIterable(keys);
  for (const key of list) {
    if (typeof key !== 'string') checkInteger('handle', key, 0, Number.MAX_SAFE_INTEGER);
  }
  return list as (string | number)[];
}

/**
 * Parses the key of one request: an external id or a handle.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseKey(key: unknown): string | number {
  if (typeof key === 'string') return key;
  if (typeof key === 'number') return checkInteger('handle', key, 0, Number.MAX_SAFE_INTEGER);
  throw badArgument('key', show(key), 'an id or a handle');
}

/**
 * Parses one use of a request's blocks.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseBlockUse(handle: unknown, kind: unknown, owner: unknown): BlockUse {
  if (!OUTSTANDING_KINDS.includes(kind as OutstandingKind)) {
    throw badArgument('kind', show(kind), `one of ${OUTSTANDING_KINDS.join(', ')}`);
  }
  return {
    handle: checkInteger('handle', handle, 0, Number.MAX_SAFE_INTEGER),
    kind: kind as OutstandingKind,
    owner: checkName('owner', owner, 0),
  };
}

/**
 * Parses the options of a prefix cache reset; both flags default to false.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseResetOptions(options: unknown): Required<ResetOptions> {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, RESET_OPTIONS);
  const { resetRunning = false, resetConnector = false } = options as Record<string, unknown>;
  return {
    resetRunning: checkBoolean('resetRunning', resetRunning),
    resetConnector: checkBoolean('resetConnector', resetConnector),
  };
}

/**
 * Parses the reports of a connector's workers that come outside a step.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseTransfers(anomalies: Anomalies, output: ConnectorOutput): ParsedOutput {
  if (typeof output === 'object' && output !== null) checkNames(output, CONNECTOR_OUTPUT_FIELDS);
  const reports = parseOutput(anomalies, output);
  if (reports === null) throw badArgument('output', show(output), 'an object');
  return reports;
}

/** @throws ERR_BLOCKSTEP_BAD_ARG unless `mode` is `new` or `all` */
export function parsePauseMode(mode: unknown): 'new' | 'all' {
  if (mode === 'new' || mode === 'all') return mode;
  throw badArgument('mode', show(mode), "'new' or 'all'");
}

/**
 * An error thrown by the iterator is passed to the caller unchanged, because the iterator is the
 * caller's own.
 */
function parseIterable(value: unknown): unknown[] {
  const iterable = typeof value === 'object' && value !== null ? (value as Iterable<unknown>) : null;
  if (typeof iterable?.[Symbol.iterator] === 'function') return [...iterable];
  throw badArgument('ids', show(value), 'an id, a handle, or an iterable of them');
}
