import { badArgument, show } from '../../base/errors.js';
import { checkNames, type KnownNames, knownNames } from '../../base/known-names.js';
import { REQUEST_FIELDS } from '../../scheduler/calls/request-names.js';
import type { RequestInput } from '../../scheduler/request/request.js';

/**
 * A request as a client submits it: the scheduler's `RequestInput`, with an optional `id`. Without
 * an id the engine generates one.
 */
export type SubmitInput = Omit<RequestInput, 'id'> & { id?: string };

/** Options of `Engine.submit`. */
export interface SubmitOptions {
  /** Aborts the request; readers are rejected with the signal's reason. */
  signal?: AbortSignal;
}

const SUBMIT_OPTIONS = knownNames<SubmitOptions>(
  'the options of submit',
  { signal: true },
  Object.fromEntries(
    [...REQUEST_FIELDS.names].map((name) => [name, 'it is a field of the request, in front of them']),
  ),
);

/**
 * The signal of a submission.
 * @param known the names that the options may have
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseSignal(options: SubmitOptions, known: KnownNames = SUBMIT_OPTIONS): AbortSignal | null {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, known);
  const { signal } = options;
  if (signal === undefined) return null;
  try {
    // The platform's own getter throws for an object that only looks like a signal.
    if (signal instanceof AbortSignal && typeof isAborted(signal) === 'boolean') return signal;
  } catch {
    // The object is not a signal.
  }
  throw badArgument('options.signal', show(signal), 'an AbortSignal');
}

const aborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')?.get as () => boolean;

/** Whether a signal is aborted, by the platform's own getter: an own property of the object cannot fake it. */
export function isAborted(signal: AbortSignal): boolean {
  return Reflect.apply(aborted, signal, []);
}
