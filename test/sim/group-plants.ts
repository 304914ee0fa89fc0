// Bugs to be planted in loads with KV cache groups.
import type { Plant } from './shared/plant.js';

/** Guards of loads with KV cache groups. The simulation of the scheduler must miss each. */
export const GROUP_PLANTS: readonly Plant[] = [
  {
    name: 'group-blocks',
    why: 'of a load the blocks of the first group alone are known',
    file: 'src/scheduler/loads/begin-load.ts',
    text: 'const loaded = rows.map((row, g) =>',
    replacement: 'const loaded = rows.slice(0, 1).map((row, g) =>',
  },
  {
    name: 'known-tokens',
    why: 'a resumed request does not count the tokens that steps in flight will bring, and goes past the end of a block that it begins inside',
    file: 'src/scheduler/schedule/running-pass.ts',
    text: 'alignedTokens(s, request, known, computed, numNew)',
    replacement: 'alignedTokens(s, request, request.numTokens, computed, numNew)',
  },
  {
    name: 'retaken-sharers',
    why: 'who took a block anew that another request had let go is computed again with that one',
    file: 'src/scheduler/loads/lost-places.ts',
    text: 'if (s.core.native.blockGeneration(block) === generation) return block;',
    replacement: 'if (generation >= 0) return block;',
  },
  {
    name: 'retaken-owner',
    why: 'a block that a load left out counts no more if it was let go and taken anew',
    file: 'src/scheduler/loads/load-failure.ts',
    text: 'if (kv > 0 || holdsSince(load.request, load.step))',
    replacement: 'if (kv > 0)',
  },
  {
    name: 'retaken-fails',
    why: 'under the policy fail one goes on whose load left out a block that was let go and taken anew',
    file: 'src/scheduler/loads/lost-places.ts',
    text: 'isOwn: isOwnLoad(s, plan, request, found[0].id),',
    replacement: 'isOwn: found[0].id > 0 && isOwnLoad(s, plan, request, found[0].id),',
  },
  {
    name: 'let-go-places',
    why: 'nobody knows which tokens a block had that was let go, so that all of them count as lost with it',
    file: 'src/scheduler/loads/lost-places.ts',
    text: 'placeOf(kvIn(s, block, generation), place, kvGroups.list[group].blockSize)',
    replacement: 'placeOf(kvIn(s, block, generation), 0 * place, kvGroups.list[group].blockSize)',
  },
  {
    name: 'let-go-between',
    why: 'nobody knows what a plan without tokens let go, so that it is found though the step before was to write it and failed',
    file: 'src/scheduler/schedule/schedule.ts',
    text: 'if (letGo !== null && plan.totalTokens === 0) s.letGoBetween.push({ step: plan.step, letGo });',
    replacement: '',
  },
  {
    name: 'owner-left',
    why: 'with groups a load that failed costs everybody who came in with it the prefix cache',
    file: 'src/scheduler/loads/load-failure.ts',
    text: '!owners.has(request) && !holdsSince(request, plan.step)',
    replacement: '!holdsSince(request, plan.step)',
  },
  {
    name: 'group-load',
    why: 'what stands in front of a block that failed to load is kept, though windows and states of other groups are not there',
    file: 'src/scheduler/loads/lost-places.ts',
    text: 'if (kvGroups.list.length > 1) return 0;',
    replacement: '',
  },
  {
    name: 'group-window',
    why: 'a request goes on from a block that failed to load, though the window in front was never loaded or is let go',
    file: 'src/scheduler/loads/lost-places.ts',
    text: 'place).includes(0) ? 0 : firstToken;',
    replacement: 'place).includes(-1) ? 0 : firstToken;',
  },
  {
    name: 'group-whole',
    why: 'a load of all tokens is taken, and the last one lacks what it needs',
    file: 'src/scheduler/schedule/group-admission.ts',
    text: 'return kvGroups.list.some(needsMore);',
    replacement: 'return kvGroups.list.some(needsMore) && false;',
  },
  {
    name: 'lost-holders',
    why: 'who holds a block that the device has lost goes on',
    file: 'src/scheduler/loads/lost-blocks.ts',
    text: 'recomputeSharers(s, oldest, bad, NOBODY);',
    replacement: 'void recomputeSharers;',
  },
  {
    name: 'lost-left',
    why: 'what others computed from a lost block and left in the prefix cache is found',
    file: 'src/scheduler/loads/lost-blocks.ts',
    text: '  if (oldest !== null && left.length > 0) forgetLeft(s, oldest, left);\n',
    replacement: '',
  },
];
