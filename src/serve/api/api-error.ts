import { BlockstepError, describeError, type ErrorCode } from '../../base/errors.js';

/** The `error` object of an error response, as in OpenAI's API. */
export interface ErrorObject {
  /** A description of the error for people. */
  readonly message: string;
  /** The kind of the error, for programs: `invalid_request_error`, `rate_limit_error`, … */
  readonly type: string;
  /** The field of the request that caused the error; null if none did. */
  readonly param: string | null;
  /** The error code for programs; null if there is none. */
  readonly code: string | null;
}

/** The details of an error besides its status and message. */
interface Details {
  readonly type?: string;
  readonly param?: string | null;
  readonly code?: string | null;
  readonly retryAfterSeconds?: number;
}

/** An error that is sent to a client: an HTTP status, and a body in OpenAI's format. */
export class ApiError extends Error {
  readonly status: number;
  readonly body: { readonly error: ErrorObject };
  /** Seconds after which the client may retry; null if unknown. */
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

/**
 * Makes the error that refuses a field of a request.
 * @param param the field's name
 * @param expected a description of the allowed values
 */
export function badField(param: string, got: string, expected: string): ApiError {
  return new ApiError(400, `${param} must be ${expected}, got ${got}`, { param, code: 'invalid_value' });
}

/** Makes the error that refuses a field that the server does not support. */
export function unsupported(param: string, why: string): ApiError {
  return new ApiError(400, `${param} is not supported: ${why}`, { param, code: 'unsupported_parameter' });
}

/**
 * Converts any thrown value to the error that the client receives. An error of the server itself
 * reveals no internals.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof BlockstepError) return ofEngine(error);
  const { statusCode } = error as { statusCode?: unknown };
  // Fastify's own refusals: malformed JSON, a body that is too large, an unsupported media type.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
    return new ApiError(statusCode, (error as Error).message);
  return new ApiError(500, 'internal server error');
}

/** HTTP statuses of the engine's errors; all other codes are 500. */
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
  // HTTP's Retry-After counts whole seconds. The engine has no estimate before its first admission.
  const retryAfterSeconds = Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000));
  return new ApiError(status, message, { code: wordFor(code), retryAfterSeconds });
}

/** The message, with the cause that the engine was given. */
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
