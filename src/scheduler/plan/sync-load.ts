import type { Load } from '../request/load.js';
import type { Request } from '../request/request.js';

/**
 * A synchronous load: the step of its plan reads the loaded blocks, so the load must be complete when the step is
 * executed.
 */
export interface SyncLoad extends Load {
  readonly request: Request;
  /** Whether the load belongs to the first step that reaches the request. */
  readonly isFirst: boolean;
  /** Tokens that the load has brought, as far as is known. */
  numLoaded: number;
  /** Generation of each block, which shows whether the block belongs to another request by now. */
  readonly generations: readonly number[];
}

/**
 * Whether some of the load's KV did not arrive. A load that fills no block, as after a window of
 * one token, lacks nothing, whatever is reported.
 */
export function lacksKv({ failed, blocks }: SyncLoad): boolean {
  return failed && blocks.length > 0;
}
