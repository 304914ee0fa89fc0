// Every error code, `BlockstepError`, and how a value is shown in a message.

/**
 * Every error code of blockstep, and when it is thrown. Codes are stable: programs may match on
 * them. A new code is added here first. docs/errors.md repeats these sentences, and says for each
 * code what to do.
 */
export const ERROR_CODES = {
  /**
   * Thrown at the end of the call that found the event. Without `strict` the event is skipped and
   * counted.
   */
  ERR_BLOCKSTEP_ANOMALY: 'strict mode only: an event that a correct peer would not send',
  /** With `authority: 'device'` call `scheduleAsync()`, `engine.stepAsync()` or `engine.run()`. */
  ERR_BLOCKSTEP_AUTHORITY:
    'the call is for the other authority: it needs the host to decide steps, but the GPU does, or the reverse',
  /** The message names the argument, its value and the expected value. */
  ERR_BLOCKSTEP_BAD_ARG:
    'an argument has the wrong type, is out of range, or has an unknown name; nothing was changed',
  /** The message names the file and the reason of the operating system. */
  ERR_BLOCKSTEP_BAD_FILE:
    'a file that the command line names, or the file of a disk tier or an embedded store, cannot be read or written',
  /**
   * The message names the byte, or the batch of commands, at fault. Another version's log cannot be
   * read.
   */
  ERR_BLOCKSTEP_BAD_LOG:
    'a recorded command log is malformed, or does not apply to the state it was replayed on',
  /** The message names the file and its defect, such as the byte where it ends. */
  ERR_BLOCKSTEP_BAD_MODEL:
    'the file of a model is missing, truncated or in a foreign format, or the kind of model is not supported',
  /** Call a native method on its own object; do not take the method off. */
  ERR_BLOCKSTEP_BAD_RECEIVER: 'a native method was called on an object that is not a native core',
  /** Do not keep a slot behind the end of its request; handles are safe to keep. */
  ERR_BLOCKSTEP_BAD_SLOT: 'the slot is not open: its request ended, or no request ever had it',
  /** Mend the line, or replay with `--skip-bad`. */
  ERR_BLOCKSTEP_BAD_TRACE: 'a workload trace cannot be read: the message names the file and the line',
  /** A stream has one reader. Await `stream.result()`, as often as needed, or keep one iterator. */
  ERR_BLOCKSTEP_BUSY:
    'the stream of a request already has a reader, or had one that left before the end; or a next() of engine.outputs() is already waiting',
  /** The message holds the error of CUDA; `probeBackends()` lists the usable back ends. */
  ERR_BLOCKSTEP_CUDA:
    'CUDA cannot be used here, or a CUDA call failed; a core that was already at work does nothing more',
  /** Await the promise of `scheduleAsync()` first; reading and aborting are allowed meanwhile. */
  ERR_BLOCKSTEP_DECISION_PENDING:
    'a decision of the GPU is pending, and nothing may change before it arrives; nothing was changed',
  /** Copy the buffers of plans and tables for `postMessage`; never transfer them. */
  ERR_BLOCKSTEP_DETACHED: 'the exchange buffer was detached (transferred or structured-cloned away)',
  /** Readers of a disposed engine get its remaining output first, and then this error. */
  ERR_BLOCKSTEP_DISPOSED: 'the object was disposed',
  /**
   * The message names the file and the error of the hub or the system. The downloaded part is kept,
   * and the next download continues it.
   */
  ERR_BLOCKSTEP_DOWNLOAD: "a model could not be downloaded from a hub, or differs from the hub's description",
  /** Leave the id out, and the engine makes one up; or wait for the end of the first request. */
  ERR_BLOCKSTEP_DUPLICATE_ID: 'a request with this id is still unfinished',
  /** See `error.cause`; docs/executors.md lists what costs a request and what costs a step. */
  ERR_BLOCKSTEP_EXECUTOR:
    'the executor failed the request or its whole step, or answered it wrongly; the cause is the error that it threw',
  /**
   * Dispose the engine and make a new one; raise `executorTimeoutMs` for an executor that is only
   * slow.
   */
  ERR_BLOCKSTEP_EXECUTOR_HUNG:
    'the executor did not answer within executorTimeoutMs; the engine refuses all further work',
  /** Dispose the engine or scheduler and make a new one; the message names the cause. */
  ERR_BLOCKSTEP_INVARIANT: 'an internal invariant is broken; the core refuses all further work',
  /** In most cases a connector loaded or stored at the wrong time. */
  ERR_BLOCKSTEP_KV_MISMATCH:
    'the reference executor found a wrong block, a stale read or a foreign write; cause lists what it found',
  /** The message names the limit; finish, abort or dispose what is no longer used. */
  ERR_BLOCKSTEP_LIMIT:
    'a limit is reached, such as the number of slots, or the unread output of engine.outputs()',
  /** Dispose the engine or scheduler, and check the GPU host as docs/gpu.md says. */
  ERR_BLOCKSTEP_MIRROR:
    "the state on the GPU differs from the host's, or fell too far behind; the core refuses all further work",
  /** Make the pool, the arena or the queue smaller, or give the process more memory. */
  ERR_BLOCKSTEP_NO_MEMORY: 'memory could not be allocated',
  ERR_BLOCKSTEP_NO_PACKAGE: 'an optional package is missing, or cannot be loaded',
  /** Run `npm rebuild blockstep`; the message says where the addon was looked for. */
  ERR_BLOCKSTEP_NO_NATIVE: 'no native addon fits this platform, or none was built',
  /** Admit the request first: admission gives it a row of the KV slot table. */
  ERR_BLOCKSTEP_NO_ROW: 'the slot holds no row, so it holds no blocks that could be extended',
  /** Unpin each block only as often as it was pinned. */
  ERR_BLOCKSTEP_NOT_PINNED: 'more unpins of a block than pins',
  /** Try again after `error.retryAfterMs` milliseconds (HTTP status 429). */
  ERR_BLOCKSTEP_OVERLOADED:
    'the queue has no room: maxQueuedRequests or maxQueuedTokens would be exceeded; nothing was changed',
  /** Call `update` with the oldest plan before the next `schedule`, or raise `pipelineDepth`. */
  ERR_BLOCKSTEP_PIPELINE_FULL: 'pipelineDepth plans are in flight; update the oldest one first',
  /** Update plans once each, in the order of `schedule()`. */
  ERR_BLOCKSTEP_PLAN_ORDER: 'the plan does not wait for its update, or an older plan must be updated first',
  /** The message names the callback; make the call later, for instance by `queueMicrotask`. */
  ERR_BLOCKSTEP_REENTRANT: 'a callback called the scheduler that is running it',
  /** The message says which of these; other requests are not affected. */
  ERR_BLOCKSTEP_REQUEST:
    'the request failed by itself: a deadline passed, its grammar failed, its KV was not loaded or was lost, or its data cannot be sent',
  /** Call `CompletionQueue.drain` once per step, or raise the `capacity` of the queue. */
  ERR_BLOCKSTEP_RING_FULL:
    'every slot of the completion queue is held by a transfer; drain it, then submit again; nothing is lost',
  /** The message names the server, and its answer or the network error. */
  ERR_BLOCKSTEP_SERVER:
    'the server that `blockstep replay --url` drives cannot be reached, denies access, or does not answer as it should',
  /** Send the request to another engine (HTTP status 503). */
  ERR_BLOCKSTEP_SHUTDOWN: 'the engine is shutting down, or was shut down, and takes no new requests',
  /** Submit the request again; `pipeline.stats()` says which stages answer. */
  ERR_BLOCKSTEP_STAGE:
    'a stage of a pipeline does not answer, or no longer knows the request: it ended, or was restarted',
  /**
   * Shorten the prompt, or raise `maxModelLen`, `numBlocks` or `maxQueuedTokens`; waiting does not
   * help.
   */
  ERR_BLOCKSTEP_UNFIT:
    'the prompt does not fit the model length, the pool, a step or maxQueuedTokens, and never will',
} as const;

/** One of the stable error codes. */
export type ErrorCode = keyof typeof ERROR_CODES;

/**
 * The one error class of blockstep. Match on `code`; the message prints the offending value and the
 * expected value.
 */
export class BlockstepError extends Error {
  /** The kind of error, for programs; `ERROR_CODES` says when each code is thrown. */
  readonly code: ErrorCode;
  /**
   * Set with ERR_BLOCKSTEP_OVERLOADED alone: milliseconds until there is room for the request. The
   * estimate assumes the recent rate of admissions, and that nobody else is served first. Null if
   * nothing was admitted yet. HTTP's `Retry-After` takes seconds.
   */
  declare readonly retryAfterMs?: number | null;

  constructor(
    code: ErrorCode,
    message: string,
    options?: ErrorOptions & { readonly retryAfterMs?: number | null },
  ) {
    super(message, options);
    this.name = 'BlockstepError';
    this.code = code;
    if (options?.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs;
  }
}

/** A value in short, for an error message. Never throws, and returns at most 60 characters. */
export function show(value: unknown): string {
  let text: string;
  try {
    if (typeof value === 'string') text = JSON.stringify(value);
    else if (typeof value === 'bigint') text = `${value}n`;
    else if (typeof value === 'function') text = 'a function';
    else if (typeof value === 'object' && value !== null)
      text = Array.isArray(value)
        ? `an array of ${value.length}`
        : `an object (${value.constructor?.name ?? 'no class'})`;
    else text = Object.is(value, -0) ? '-0' : String(value);
  } catch {
    text = typeof value;
  }
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/**
 * A thrown value in a few words, whatever was thrown. Never throws, even if a getter of the value
 * does.
 */
export function describeError(error: unknown): string {
  if (typeof error === 'string') return error;
  try {
    if (error instanceof Error) return `${error.name}: ${error.message}`.slice(0, 300);
  } catch {
    return 'an error that cannot be read';
  }
  return show(error);
}

/** The message of a thrown error, without its name; else as `describeError`. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : describeError(error);
}

/**
 * The error that refuses an argument, ERR_BLOCKSTEP_BAD_ARG: `NAME must be EXPECTED, got GOT`.
 * @param name the argument's name
 * @param got the actual argument, in words
 * @param expected the expected argument, in words
 */
export function badArgument(name: string, got: string, expected: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${name} must be ${expected}, got ${got}`);
}

/**
 * Returns `value` if it is an integer in [min, max]. -0 becomes 0.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the argument
 */
export function checkInteger(name: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value + 0;
  throw new BlockstepError(
    'ERR_BLOCKSTEP_BAD_ARG',
    `${name} must be an integer from ${min} to ${max}, got ${show(value)}`,
  );
}
