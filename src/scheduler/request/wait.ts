// The wait of a request, and its limit.
import type { RequestStatus } from './status.js';

/**
 * The event that an unfinished request which does not run waits for.
 *
 * - `admission`: blocks, a row, tokens of the budget, a place in `running`, or the end of a pause.
 * - `resumption`: the same, after a preemption.
 * - `adapter`: a place among the `maxLoras` adapters.
 * - `grammar`: its grammar, which is not ready yet.
 * - `streaming-input`: the next chunk of its session.
 * - `connector`: its connector, which cannot say yet what it can load.
 * - `remote-kv`: a load.
 * - `chunk`: a borrowing adapter, whose next chunk has not come; the request may be among the
 *   running ones.
 */
export type WaitReason =
  | 'admission'
  | 'resumption'
  | 'adapter'
  | 'grammar'
  | 'streaming-input'
  | 'connector'
  | 'remote-kv'
  | 'chunk';

/** The fields of a `Request` that decide its wait reason. */
interface WaitFields {
  readonly status: RequestStatus;
  readonly asksLater: boolean;
  readonly waitsForAdapter: boolean;
}

/**
 * The wait reason of a request; null while it runs and after it has finished. It is derived from
 * the status, so it cannot contradict the scheduler's behaviour.
 */
export function waitReason(request: WaitFields): WaitReason | null {
  switch (request.status) {
    case 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR':
      return 'grammar';
    case 'WAITING_FOR_STREAMING_REQ':
      return 'streaming-input';
    case 'WAITING_FOR_REMOTE_KVS':
      return 'remote-kv';
    case 'WAITING_FOR_CHUNK':
      return 'chunk';
    case 'WAITING':
    case 'PREEMPTED':
      return queueReason(request);
    default:
      return null;
  }
}

function queueReason({ status, asksLater, waitsForAdapter }: WaitFields): WaitReason {
  if (asksLater) return 'connector';
  if (waitsForAdapter) return 'adapter';
  return status === 'PREEMPTED' ? 'resumption' : 'admission';
}

/**
 * How long requests may wait, in milliseconds of the scheduler's clock; 0 = for ever. Except with
 * `reclaim`, a request whose time is over ends with `error`, when the next step is scheduled.
 */
export interface Deadlines {
  /**
   * For a place in a step, until the request is scheduled, whatever else it waits for meanwhile. It
   * begins when the request was added, was preempted, or its session's turn came. Default 0 (for
   * ever), as in vLLM: the client knows how long a queue may be, and can limit a single request too
   * (`RequestInput.timeoutMs`).
   */
  queue: number;
  /** For the next chunk of a session. Default 600,000. */
  streamingInput: number;
  /** For the request's grammar to be ready. Default 60,000. */
  grammar: number;
  /**
   * For KV that a connector loads. A connector that cannot say yet what it can load has as long
   * again for that. Time in which no step looks at the request does not count. Default 120,000. The
   * blocks of a load that took too long stay until the load has been reported.
   */
  load: number;
  /**
   * For any remaining use of the blocks of a finished request. When it is over the blocks are
   * quarantined. It must be longer than a peer may be silent: a report that the peer is alive
   * (`ConnectorOutput.renewed`) restarts it. Default 60,000.
   */
  reclaim: number;
}

/** The deadlines of a scheduler that was given none. */
export const DEFAULT_DEADLINES: Readonly<Deadlines> = Object.freeze({
  queue: 0,
  streamingInput: 600_000,
  grammar: 60_000,
  load: 120_000,
  reclaim: 60_000,
});

/**
 * Largest time limit: ten years, in milliseconds. There is a largest one because a log cannot hold an infinite
 * number.
 */
export const MAX_TIMEOUT = 10 * 365 * 24 * 3600 * 1000;

/** The deadline of a wait without a limit: later than any time. */
export const NO_DEADLINE = Number.POSITIVE_INFINITY;
