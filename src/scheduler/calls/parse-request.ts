import { checkBoolean, checkFinite, checkName } from '../../base/checks.js';
import { BlockstepError, badArgument, checkInteger, show } from '../../base/errors.js';
import { bindMethods } from '../../base/foreign/foreign-method.js';
import { checkNames } from '../../base/known-names.js';
import { TOKEN_MAX } from '../../core/core.js';
import { poolTokens } from '../options/options.js';
import type { Grammar, GrammarCalls } from '../request/grammar.js';
import type { ParsedRequest, Request, RequestInput } from '../request/request.js';
import type { ChunkInput, Session } from '../request/session.js';
import type { ParsedStops, StopConditions } from '../request/stop-conditions.js';
import { MAX_TIMEOUT } from '../request/wait.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { CHUNK_FIELDS, REQUEST_FIELDS } from './request-names.js';
import { parseTokenIds } from './token-ids.js';

const INT32_MAX = 2 ** 31 - 1;
const AT_LEAST_ONE = 'at least one token (only a session without a grammar may begin without a prompt)';
const GRAMMAR_METHODS = ['ready', 'acceptTokens', 'validateTokens'] as const;

/**
 * Checks all fields of a new request, as far as that is possible without native code. The core
 * checks the range of the prompt's token ids, in the pass that copies them. Each field is read
 * once, so that the checked value is the value that is used.
 * @param newId makes an id for a request that has none; without it an id is required
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT
 */
export function parseRequest(
  s: SchedulerState,
  input: RequestInput | NamelessRequest,
  newId?: () => string,
): ParsedRequest {
  checkFields(input);
  const { prompt, priority, arrivalTime, cacheSalt, adapter, resumable, grammar, maxTokens } = input;
  const { transferParams, params, timeoutMs } = input;
  const id = parseId(input, newId);
  const tokens = parseTokenIds('prompt', prompt);
  const mayBeEmpty = resumable === true && grammar === undefined;
  if (tokens.length === 0 && !mayBeEmpty) throw badArgument('prompt', 'none', AT_LEAST_ONE);
  checkInteger('maxTokens', maxTokens, 1, INT32_MAX);
  const request: ParsedRequest = { id, prompt: tokens, maxTokens, ...parseStops(input, maxTokens) };
  if (priority !== undefined) request.priority = checkInteger('priority', priority, -INT32_MAX, INT32_MAX);
  if (arrivalTime !== undefined) request.arrivalTime = checkFinite('arrivalTime', arrivalTime);
  if (cacheSalt !== undefined) request.cacheSalt = checkName('cacheSalt', cacheSalt, 0);
  if (adapter !== undefined) request.adapter = checkName('adapter', adapter, 0);
  if (resumable !== undefined) request.resumable = checkBoolean('resumable', resumable);
  // A step in flight takes a state past the token behind which the next chunk goes on, and a state cannot go back.
  if (request.resumable === true && s.pipelined && s.groups.hasStates)
    throw badArgument('resumable', 'true', 'false with a group of type mamba, unless pipelineDepth is 1');
  if (grammar !== undefined) {
    request.grammarCalls = bindGrammar(grammar);
    request.grammar = grammar;
  }
  if (timeoutMs !== undefined && timeoutMs !== Number.POSITIVE_INFINITY) {
    request.timeoutMs = parseTimeout(timeoutMs);
  }
  if (transferParams !== undefined) request.transferParams = parseParams(transferParams);
  if (params !== undefined) request.params = params;
  if (s.requests.has(id)) {
    throw new BlockstepError('ERR_BLOCKSTEP_DUPLICATE_ID', `id ${show(id)} belongs to an unfinished request`);
  }
  if (s.config.deviations.refuseUnfit) checkFits(s, tokens.length, tokens.length);
  return request;
}

/** Refuses a value that is not an object, or has an unknown field. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkFields(input: NamelessRequest): void {
  if (typeof input !== 'object' || input === null) throw badArgument('request', show(input), 'an object');
  checkNames(input, REQUEST_FIELDS);
}

/** A request whose id may be generated. */
export type NamelessRequest = Omit<RequestInput, 'id'> & { id?: string };

/** The id of a request, read once. @param newId see `parseRequest` @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseId({ id }: NamelessRequest, newId?: () => string): string {
  return checkName('id', newId === undefined ? id : (id ?? newId()), 1);
}

function parseTimeout(value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= MAX_TIMEOUT) return value;
  throw badArgument(
    'timeoutMs',
    show(value),
    `milliseconds, more than 0 and at most ${MAX_TIMEOUT}, or Infinity`,
  );
}

/**
 * A copy of the transfer params. Their content concerns only client and connector, and is not
 * checked.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseParams(params: unknown): Readonly<Record<string, unknown>> {
  if (typeof params === 'object' && params !== null && !Array.isArray(params)) return { ...params };
  throw badArgument('transferParams', show(params), 'an object');
}

/**
 * The transfer params of a refused request, whatever else is wrong with it; null if they are not an
 * object.
 */
export function paramsOf(input: NamelessRequest): Readonly<Record<string, unknown>> | null {
  try {
    const { transferParams } = input;
    return transferParams === undefined ? null : parseParams(transferParams);
  } catch {
    return null;
  }
}

/**
 * A chunk as its caller gave it, checked as far as that is possible without its session. `prompt`
 * is a copy.
 */
export interface ParsedChunk {
  prompt: Int32Array;
  stops: Partial<ParsedStops>;
  arrivalTime: number | undefined;
  params: unknown;
}

/**
 * Checks and copies a chunk. Each field is read once.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseChunk(input: ChunkInput): ParsedChunk {
  if (typeof input !== 'object' || input === null) throw badArgument('chunk', show(input), 'an object');
  checkNames(input, CHUNK_FIELDS);
  const { prompt, maxTokens, arrivalTime, params } = input;
  const tokens = parseTokenIds('prompt', prompt).slice();
  if (tokens.length === 0) throw badArgument('prompt', 'none', 'at least one token');
  if (maxTokens !== undefined) checkInteger('maxTokens', maxTokens, 1, INT32_MAX);
  const stops: Partial<ParsedStops> = parseStops(input, maxTokens ?? INT32_MAX);
  if (maxTokens !== undefined) stops.maxTokens = maxTokens;
  checkTokens('prompt', tokens);
  return {
    prompt: tokens,
    stops,
    arrivalTime: arrivalTime === undefined ? undefined : checkFinite('arrivalTime', arrivalTime),
    params,
  };
}

function checkTokens(name: string, tokens: Int32Array): void {
  // The sign bit collects the faults of all tokens, so that the loop needs no branch.
  let wrong = 0;
  for (const token of tokens) wrong |= token | (token + 1);
  if (wrong >= 0) return;
  const at = tokens.findIndex((token) => token < 0 || token > TOKEN_MAX);
  checkInteger(`${name}[${at}]`, tokens[at], 0, TOKEN_MAX);
}

/** A chunk that lacks only the time at which it is added. */
export interface CompleteChunk extends ParsedChunk {
  stops: ParsedStops;
}

/**
 * Completes a chunk with the stop conditions of its session. The length that the session will have
 * when a queued chunk begins is unknown. So a queued chunk is refused only if it is sure not to
 * fit.
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT
 */
export function completeChunk(s: SchedulerState, request: Request, chunk: ParsedChunk): CompleteChunk {
  const { stops: first, numQueuedTokens } = request.session as Session;
  const { deviations } = s.config;
  const stops = { ...first, ...chunk.stops };
  checkMinTokens(stops, chunk.stops.minTokens !== undefined);
  if (deviations.refuseUnfit) {
    const said = s.queues.idle.has(request) ? Math.max(0, request.numTokens - 1) : request.numPromptTokens;
    checkFits(s, said + numQueuedTokens + chunk.prompt.length, chunk.prompt.length);
  }
  return { ...chunk, stops };
}

/**
 * Checks `minTokens` of a chunk against `maxTokens`. `parseChunk` has checked two that come with one chunk; so one comes
 * with the chunk, the other from its session, and the chunk's own is the wrong one.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
function checkMinTokens({ minTokens = 0, maxTokens }: StopConditions, bringsMinTokens: boolean): void {
  if (minTokens <= maxTokens) return;
  throw bringsMinTokens
    ? badArgument('minTokens', show(minTokens), `at most ${maxTokens}, the maxTokens of its session`)
    : badArgument('maxTokens', show(maxTokens), `at least ${minTokens}, the minTokens of its session`);
}

/**
 * Checks every stop condition except `maxTokens`, which `minTokens` must not exceed.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
function parseStops(input: Partial<StopConditions>, maxTokens: number): Partial<ParsedStops> {
  const { minTokens, eosTokenId, ignoreEos, stopTokenIds } = input;
  const stops: Partial<ParsedStops> = {};
  if (minTokens !== undefined) stops.minTokens = checkInteger('minTokens', minTokens, 0, maxTokens);
  if (eosTokenId !== undefined) stops.eosTokenId = checkInteger('eosTokenId', eosTokenId, 0, TOKEN_MAX);
  if (ignoreEos !== undefined) stops.ignoreEos = checkBoolean('ignoreEos', ignoreEos);
  if (stopTokenIds !== undefined) {
    const ids = parseTokenIds('stopTokenIds', stopTokenIds);
    checkTokens('stopTokenIds', ids);
    stops.stopTokenIds = Array.from(ids);
  }
  return stops;
}

/**
 * Binds a grammar: each of its methods is looked up once and bound to it.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
function bindGrammar(grammar: Grammar): GrammarCalls {
  if (typeof grammar !== 'object' || grammar === null) {
    throw badArgument('grammar', show(grammar), 'an object');
  }
  return bindMethods('grammar', grammar, GRAMMAR_METHODS);
}

/**
 * Checks that a text leaves room for output in the model, and fits the pool and a step.
 * @param total tokens of the whole text, of which `numPrompt` are new
 * @throws ERR_BLOCKSTEP_UNFIT
 */
function checkFits(s: SchedulerState, total: number, numPrompt: number): void {
  const { maxModelLen } = s.config;
  const what =
    total === numPrompt ? `a prompt of ${total} tokens` : `a chunk of ${numPrompt} tokens, ${total} in all,`;
  if (total >= maxModelLen) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_UNFIT',
      `${what} leaves no room for output: maxModelLen is ${maxModelLen}`,
    );
  }
  const most = poolTokens(s.config);
  if (total > most) {
    throw new BlockstepError('ERR_BLOCKSTEP_UNFIT', `${what} never fits the pool, which holds ${most}`);
  }
  if (total > s.wholeStepTokens) {
    const why = `never fits a step, which computes at most ${s.wholeStepTokens} tokens of a prompt that it may not divide`;
    throw new BlockstepError('ERR_BLOCKSTEP_UNFIT', `${what} ${why}`);
  }
}
