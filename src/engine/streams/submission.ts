import { badArgument, show } from '../../base/errors.js';
import { checkNames, type KnownNames, knownNames } from '../../base/known-names.js';
import { REQUEST_FIELDS } from '../../scheduler/calls/request-names.js';
import type { RequestInput } from '../../scheduler/request/request.js';

/** A request as a client submits it: as for a scheduler, but the id may be left out. Then the engine makes one up. */
export type SubmitInput = Omit<RequestInput, 'id'> & { id?: string };

export interface SubmitOptions {
  /** Aborts the request; its reason is what the readers are rejected with. */
  signal?: AbortSignal;
}

const SUBMIT_OPTIONS = knownNames<SubmitOptions>(
  'the options of submit',
  { signal: true },
  Object.fromEntries(
    [...REQUEST_FIELDS.names].map((name) => [name, 'it is a field of the request, in front of them']),
  ),
);

/** A copy of a request, each field of the caller's object read once. The scheduler checks what the fields say. */
export function takeSubmission(input: SubmitInput): SubmitInput {
  if (typeof input !== 'object' || input === null) throw badArgument('request', show(input), 'an object');
  checkNames(input, REQUEST_FIELDS);
  const { id, prompt, maxTokens, minTokens, eosTokenId, ignoreEos, stopTokenIds } = input;
  const { priority, arrivalTime, cacheSalt, adapter, resumable, grammar } = input;
  const { timeoutMs, transferParams, params } = input;
  // The type demands every field of a request, so that none is forgotten here.
  const copy: { [field in keyof Required<RequestInput>]: SubmitInput[field] | undefined } = {
    id,
    prompt,
    maxTokens,
    minTokens,
    eosTokenId,
    ignoreEos,
    stopTokenIds,
    priority,
    arrivalTime,
    cacheSalt,
    adapter,
    resumable,
    grammar,
    timeoutMs,
    transferParams,
    params,
  };
  return copy as SubmitInput;
}

/**
 * The signal of a submission.
 * @param known the names that the options may have
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function takeSignal(options: SubmitOptions, known: KnownNames = SUBMIT_OPTIONS): AbortSignal | null {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, known);
  const { signal } = options;
  if (signal === undefined) return null;
  try {
    // The platform's own getter throws for what only looks like a signal.
    if (signal instanceof AbortSignal && typeof isAborted(signal) === 'boolean') return signal;
  } catch {
    // It is none.
  }
  throw badArgument('options.signal', show(signal), 'an AbortSignal');
}

const aborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')?.get as () => boolean;

export function isAborted(signal: AbortSignal): boolean {
  return Reflect.apply(aborted, signal, []);
}
