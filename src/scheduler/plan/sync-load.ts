import type { Load } from '../request/load.js';
import type { Request } from '../request/request.js';

/** A load that the step itself reads: it has to be there when the step is executed. */
export interface SyncLoad extends Load {
  readonly request: Request;
  /** Generations of the blocks, so that one which belongs to somebody else by now is known. */
  readonly generations: readonly number[];
}
