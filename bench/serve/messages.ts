// The messages between the benchmark of the server and its processes.

/** A message from a server of the benchmark to the program that started it. */
export type ServerMessage =
  | { readonly kind: 'ready'; readonly port: number }
  | { readonly kind: 'window'; readonly window: ServerWindow };

/** The work of a server between `begin` and `end`. */
export interface ServerWindow {
  readonly ms: number;
  /** Tokens that were generated. */
  readonly tokens: number;
  /** Processor time of the whole process, in milliseconds. */
  readonly processorMs: number;
  /** Delay of the event loop, in milliseconds; null where it is not Node's. */
  readonly delayP50: number | null;
  readonly delayP99: number | null;
  /** Milliseconds for which the executor had nothing to do between two steps; null where there is no executor. */
  readonly idleP50: number | null;
}

/** The latencies of clients between `begin` and `end`, in milliseconds. */
export interface ClientWindow {
  /** From the request to the first token, of all streams. */
  readonly firstP50: number;
  readonly firstP99: number;
  /** Between two arrivals at one stream. */
  readonly betweenP50: number;
  readonly betweenP99: number;
}

/** The part of a sorted list that is at most as large. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
