// Checks that blocks that the scheduler calls settled are there.
import type { KvExtent } from '../../../../src/scheduler/connector/kv-extent.js';
import type { BlockLists, KvView } from '../../../../src/scheduler/connector/kv-view.js';
import type { Request } from '../../../../src/scheduler/request/request.js';
import type { Stage } from '../stage.js';
import { isKept } from './places.js';

/**
 * I7: the KV that the scheduler reports as settled is in the request's full blocks, on every rank.
 */
export function checkSettled(
  stage: Stage,
  { groups }: KvView,
  request: Request,
  rows: BlockLists,
  { numTokens, numSettledTokens, readableFrom }: KvExtent,
): void {
  const there = readableFrom < 0 ? numTokens : numSettledTokens;
  for (const [group, { blockSize }] of groups.entries()) {
    for (let index = 0; (index + 1) * blockSize <= there; index++) {
      if (!isKept(rows, { group, index })) continue;
      const block = rows[group][index];
      const right = stage.contentsOf(request, { group, index });
      for (let rank = 0; rank < stage.kv.planes.length; rank++) {
        const at = stage.kv.read(rank, block, right.length).findIndex((content, p) => content !== right[p]);
        if (at < 0) continue;
        const what = `${there} tokens of ${stage.name(request.handle)} are settled`;
        stage.broke(
          'I7',
          `${what}, and block ${block} has something else from its offset ${at} on (rank ${rank})`,
        );
      }
    }
  }
}
