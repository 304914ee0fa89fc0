import type { Load } from '../request/load.js';
import type { Request } from '../request/request.js';

/**
 * A synchronous load: the step of its plan reads the loaded blocks, so the load must be complete when the step is
 * executed.
 */
export interface SyncLoad extends Load {
  readonly request: Request;
  /** Whether it is of the first step that reaches the request. */
  readonly isFirst: boolean;
  /** Tokens that the load has brought, as far as is known. */
  numLoaded: number;
  /** Generation of each block, by which a block that belongs to another request by now is recognised. */
  readonly generations: readonly number[];
}

/** Whether something of the load did not come. One that fills no block, as behind a window of one token, lacks nothing, whatever is reported. */
export function lacksKv({ failed, blocks }: SyncLoad): boolean {
  return failed && blocks.length > 0;
}
