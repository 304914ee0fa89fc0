import { BlockstepError, describeError, type ErrorCode } from '../../base/errors.js';

/** The `error` of an error body, as OpenAI's API has it. */
export interface ErrorObject {
  /** What went wrong, for people. */
  readonly message: string;
  /** The kind of the error, for programs: `invalid_request_error`, `rate_limit_error`, … */
  readonly type: string;
  /** The field of the request that is at fault; null if none is. */
  readonly param: string | null;
  /** What went wrong, for programs; null if there is no word for it. */
  readonly code: string | null;
}

/** The details of an error beside its status and message. */
interface Details {
  readonly type?: string;
  readonly param?: string | null;
  readonly code?: string | null;
  readonly retryAfterSeconds?: number;
}

/** An error that a client is answered with: a status of HTTP, and a body in OpenAI's form. */
export class ApiError extends Error {
  readonly status: number;
  readonly body: { readonly error: ErrorObject };
  /** After how many seconds the client may try again; null if it is not said. */
  readonly retryAfterSeconds: number | null;

  constructor(status: number, message: string, details: Details = {}) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    const { type = typeOf(status), param = null, code = null } = details;
    this.body = { error: { message, type, param, code } };
    this.retryAfterSeconds = details.retryAfterSeconds ?? null;
  }
}

/** The error that refuses a field of a request. @param param the field's name @param expected what it must be, in words */
export function badField(param: string, got: string, expected: string): ApiError {
  return new ApiError(400, `${param} must be ${expected}, got ${got}`, { param, code: 'invalid_value' });
}

/** The error that refuses a field whose meaning the server does not offer. */
export function unsupported(param: string, why: string): ApiError {
  return new ApiError(400, `${param} is not supported: ${why}`, { param, code: 'unsupported_parameter' });
}

/** What a client is answered with for whatever was thrown. What the server is to blame for names no internals. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof BlockstepError) return ofEngine(error);
  const { statusCode } = error as { statusCode?: unknown };
  // What Fastify refuses by itself: no JSON, a body that is too large, a media type that it does not read.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
    return new ApiError(statusCode, (error as Error).message);
  return new ApiError(500, 'internal server error');
}

/** HTTP statuses of the engine's errors; everything else is 500. */
const STATUS: { readonly [code in ErrorCode]?: number } = {
  ERR_BLOCKSTEP_BAD_ARG: 400,
  ERR_BLOCKSTEP_UNFIT: 400,
  ERR_BLOCKSTEP_OVERLOADED: 429,
  ERR_BLOCKSTEP_SHUTDOWN: 503,
  ERR_BLOCKSTEP_DISPOSED: 503,
  ERR_BLOCKSTEP_EXECUTOR_HUNG: 503,
  ERR_BLOCKSTEP_INVARIANT: 503,
  ERR_BLOCKSTEP_LIMIT: 503,
};

function ofEngine(error: BlockstepError): ApiError {
  const { code, message, retryAfterMs } = error;
  const status = STATUS[code] ?? 500;
  if (status !== 429) return new ApiError(status, describe(error), { code: wordFor(code) });
  // HTTP knows whole seconds; the engine does not know how long before it has admitted anything.
  const retryAfterSeconds = Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000));
  return new ApiError(status, message, { code: wordFor(code), retryAfterSeconds });
}

/** The message, and what the engine was given as the reason. */
function describe({ message, cause }: BlockstepError): string {
  return cause instanceof Error ? `${message} (${describeError(cause)})` : message;
}

function wordFor(code: ErrorCode): string {
  if (code === 'ERR_BLOCKSTEP_UNFIT') return 'context_length_exceeded';
  return code.slice('ERR_BLOCKSTEP_'.length).toLowerCase();
}

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  if (status === 503) return 'service_unavailable_error';
  return status < 500 ? 'invalid_request_error' : 'server_error';
}
