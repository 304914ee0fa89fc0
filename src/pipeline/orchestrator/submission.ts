import { badArg, isObject } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { parseSignal, type SubmitInput } from '../../engine/streams/submission.js';
import { parseTokenIds } from '../../scheduler/calls/token-ids.js';
import { parseStageFields, type StageFields } from '../stage/stage-options.js';
import type { StageSubmission } from '../transport/messages.js';
import { stageParty } from '../transport/transport.js';
import type { PipelineRequest } from './pipeline-request.js';

/** A request of a pipeline: the input of the first stage, and fields for the other stages. */
export interface PipelineInput extends Omit<SubmitInput, 'grammar' | 'maxTokens'> {
  /**
   * Maximum number of tokens that the first stage may generate for an input. Default: the value in
   * the stage's `defaults`, or else 16.
   */
  maxTokens?: number;
  /**
   * Fields for single stages, by name. For the first stage, they add to the fields of the request
   * itself.
   */
  stages?: Readonly<Record<string, StageFields>>;
}

/** Options of `Pipeline.submit`. */
export interface PipelineSubmitOptions {
  /** Aborts the request in all stages; readers are rejected with the signal's reason. */
  signal?: AbortSignal;
  /** Names of the stages whose outputs the reader gets. Default: only the last stage. */
  outputs?: readonly string[];
}

/** A checked `PipelineInput`. The stages check the values of `fields`. */
export interface ParsedPipelineInput {
  readonly id: string | undefined;
  readonly prompt: Int32Array;
  readonly resumable: boolean;
  /** Milliseconds for the whole request; Infinity: no limit. */
  readonly timeoutMs: number;
  /** The fields of each stage. */
  readonly fields: readonly StageFields[];
}

const INPUT = knownNames<PipelineInput>(
  'a request of a pipeline',
  {
    id: true,
    prompt: true,
    stages: true,
    resumable: true,
    timeoutMs: true,
    maxTokens: true,
    minTokens: true,
    eosTokenId: true,
    ignoreEos: true,
    stopTokenIds: true,
    priority: true,
    arrivalTime: true,
    cacheSalt: true,
    adapter: true,
    transferParams: true,
    params: true,
  },
  { grammar: 'grammars are not supported in pipelines', signal: 'it is an option, behind the request' },
);
/** The limit leaves room for the key in the names of the engines' requests. */
const MAX_ID = 32_768;
const SUBMIT_OPTIONS = knownNames<PipelineSubmitOptions>('the options of submit', {
  signal: true,
  outputs: true,
});
/** Ten years, in milliseconds. */
const MAX_TIMEOUT = 10 * 365 * 24 * 3600 * 1000;

/** Checks and copies a request; each field is read once. @param names of the stages @throws ERR_BLOCKSTEP_BAD_ARG */
export function parsePipelineInput(input: unknown, names: readonly string[]): ParsedPipelineInput {
  if (!isObject(input)) throw badArg('request', input, 'an object');
  checkNames(input, INPUT);
  const {
    id,
    prompt,
    stages = {},
    resumable = false,
    timeoutMs = Number.POSITIVE_INFINITY,
    ...rest
  } = input as unknown as PipelineInput;
  if (id !== undefined && (typeof id !== 'string' || id.length === 0 || id.length > MAX_ID))
    throw badArg('id', id, `a string of 1 to ${MAX_ID} characters`);
  if (typeof resumable !== 'boolean') throw badArg('resumable', resumable, 'a boolean');
  if (timeoutMs !== Number.POSITIVE_INFINITY && !(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT))
    throw badArg('timeoutMs', timeoutMs, `milliseconds, more than 0 and at most ${MAX_TIMEOUT}, or Infinity`);
  // The prompt may be any array-like. It is copied, because a message must not change with the
  // caller's array.
  const tokens = parseTokenIds('prompt', prompt).slice();
  if (tokens.length === 0 && !resumable)
    throw badArgument('prompt', 'none', 'at least one token, but for a session');
  if (rest.maxTokens !== undefined) checkInteger('maxTokens', rest.maxTokens, 1, 2 ** 31 - 1);
  return { id, prompt: tokens, resumable, timeoutMs, fields: parseAllFields(rest, stages, names) };
}

function parseAllFields(first: StageFields, stages: unknown, names: readonly string[]): StageFields[] {
  if (!isObject(stages)) throw badArg('stages', stages, 'an object with fields under the names of stages');
  for (const name of Object.keys(stages))
    if (!names.includes(name)) throw badArgument('stages', show(name), `names among ${names.join(', ')}`);
  return names.map((name, i) => ({
    ...(i === 0 ? first : {}),
    ...parseStageFields(`stages.${name}`, stages[name] ?? {}),
  }));
}

/** Returns the signal of a submission, and the requested stages. @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseSubmitOptions(options: unknown, names: readonly string[]) {
  const signal = parseSignal(options as PipelineSubmitOptions, SUBMIT_OPTIONS);
  return { signal, wants: parseOutputs((options as PipelineSubmitOptions).outputs, names) };
}

/** Returns the requested stages. @throws ERR_BLOCKSTEP_BAD_ARG */
function parseOutputs(outputs: unknown, names: readonly string[]): ReadonlySet<string> {
  const last = names[names.length - 1];
  if (outputs === undefined) return new Set([last]);
  if (!Array.isArray(outputs)) throw badArg('options.outputs', outputs, 'an array of names of stages');
  for (const name of outputs)
    if (!names.includes(name))
      throw badArgument('options.outputs', show(name), `names among ${names.join(', ')}`);
  return new Set(outputs as string[]);
}

/**
 * Makes the submission of a request to each stage. @param client the party that the stages report
 * to
 */
export function submissionsOf(
  parsed: ParsedPipelineInput,
  { key, id, wants }: Pick<PipelineRequest, 'key' | 'id' | 'wants'>,
  names: readonly string[],
  client: string,
): StageSubmission[] {
  const input = parsed.resumable ? client : null;
  return names.map((name, stage) => ({
    ...{ key, id, client, wants: wants.has(name) },
    fields: parsed.fields[stage] as StageSubmission['fields'],
    from: stage === 0 ? input : stageParty(names[stage - 1]),
    to: stage === names.length - 1 ? null : stageParty(names[stage + 1]),
    prompt: stage === 0 ? parsed.prompt : new Int32Array(0),
  }));
}
