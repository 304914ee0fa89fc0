import type { RequestStatus } from './status.js';

/**
 * What an unfinished request that does not run waits for. `admission`: blocks, a row, tokens of the budget, a place in
 * `running`, or the end of a pause; `resumption`: the same after a preemption; `adapter`: a place among `maxLoras`
 * adapters; `grammar`: that its grammar is ready; `streaming-input`: the next chunk of its session; `connector`: that its
 * connector says what it can load; `remote-kv`: a load.
 */
export type WaitReason =
  | 'admission'
  | 'resumption'
  | 'adapter'
  | 'grammar'
  | 'streaming-input'
  | 'connector'
  | 'remote-kv';

/** What of a request says what it waits for; see the fields of `Request`. */
interface WaitFields {
  readonly status: RequestStatus;
  readonly asksLater: boolean;
  readonly waitsForAdapter: boolean;
}

/** Derived from the status, so that it cannot say anything else than what the scheduler does. */
export function waitReason(request: WaitFields): WaitReason | null {
  switch (request.status) {
    case 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR':
      return 'grammar';
    case 'WAITING_FOR_STREAMING_REQ':
      return 'streaming-input';
    case 'WAITING_FOR_REMOTE_KVS':
      return 'remote-kv';
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
 * How long requests may wait, in milliseconds of the scheduler's clock; 0 = for ever. A request whose
 * time is over ends with `error`, when the next step is scheduled.
 */
export interface Deadlines {
  /**
   * For a place in a step: from when a request was added, its session's turn came or it was preempted until it is scheduled,
   * whatever else it waits for meanwhile. Default 0, as in vLLM: how long a queue may be is for the client to say, who can also
   * limit a single request (`RequestInput.timeoutMs`).
   */
  queue: number;
  /** For the next chunk of a session. Default 600,000. */
  streamingInput: number;
  /** For a grammar to be ready. Default 60,000. */
  grammar: number;
  /**
   * For KV that a connector loads; and before that, as long again, for what it can load, if it cannot say so yet. Default
   * 120,000. The blocks stay until the load has reported.
   */
  load: number;
  /**
   * For what still uses a finished request's blocks: then they are quarantined. Longer than a peer may be silent: a report
   * that it is alive (`ConnectorOutput.renewed`) begins it anew. Default 60,000.
   */
  reclaim: number;
}

export const DEFAULT_DEADLINES: Readonly<Deadlines> = Object.freeze({
  queue: 0,
  streamingInput: 600_000,
  grammar: 60_000,
  load: 120_000,
  reclaim: 60_000,
});

/** Milliseconds that a deadline may be away: ten years; a log holds no infinite number. */
export const MAX_TIMEOUT = 10 * 365 * 24 * 3600 * 1000;

/** Later than any time. */
export const NO_DEADLINE = Number.POSITIVE_INFINITY;
