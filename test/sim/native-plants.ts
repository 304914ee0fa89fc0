// Bugs to be planted in the native code of KV cache groups.
import type { Plant } from './shared/plant.js';

const ROWS = 'native/host/groups/group_rows.cc';
const RUNNING = 'native/host/groups/group_running.cc';
const SEARCH = 'native/host/groups/prefix_search.cc';
const ADMISSIONS = 'native/host/groups/group_admissions.cc';

/** Bugs to be planted in the native code of KV cache groups, which lives with groups must find. */
export const NATIVE_PLANTS: readonly Plant[] = [
  {
    name: 'n1',
    why: 'a window lets go of a token too early',
    file: ROWS,
    text: 'return computed < group.window ? 0 : computed - group.window + 1;',
    replacement: 'return computed < group.window ? 0 : computed - group.window + 2;',
  },
  {
    name: 'n2',
    why: 'a window keeps a place that nobody needs',
    file: ROWS,
    text: 'const u32 end = std::min(skipped(g, known), part.length);',
    replacement:
      'const u32 kept = skipped(g, known);\n  const u32 end = std::min(kept - (kept > 0), part.length);',
  },
  {
    name: 'n3',
    why: 'a hit of a window has one block less than the window needs',
    file: SEARCH,
    text: '(group.window - 1 + group.block_size - 1) / group.block_size + eagle;',
    replacement: '(group.window - 1) / group.block_size + eagle;',
  },
  {
    name: 'n4',
    why: 'a lookup finds blocks of the first group for every one',
    file: SEARCH,
    text: 'const u32 id = blockstep::find(state_, slot.hashes[hash], g);',
    replacement: 'const u32 id = blockstep::find(state_, slot.hashes[hash], g * 0);',
  },
  {
    name: 'n5',
    why: 'the null places in front of a hit are lost',
    file: ADMISSIONS,
    text: '      ids_.assign(skipped, kNullBlock);',
    replacement: '      ids_.assign(skipped - (skipped > 0), kNullBlock);',
  },
  {
    name: 'n6',
    why: 'a row has a place less than its tokens need',
    file: ROWS,
    text: 'return divide_up(tokens, group.block_size) + group.spare_blocks;',
    replacement:
      'return tokens / group.block_size + (tokens > 0 && tokens < group.block_size) + group.spare_blocks;',
  },
  {
    name: 'n7',
    why: 'blocks are published before they are full',
    file: ROWS,
    text: 'const u32 full = std::min(publishable / size, part.length);',
    replacement:
      'const u32 full = std::min({divide_up(tokens, size), part.length, slot.num_hashes / (size / config_.block_size)});',
  },
  {
    name: 'n8',
    why: 'a state that the present step makes is found',
    file: ADMISSIONS,
    text: 'return rows_.is_noted(g, slot.hashes[hits.size() * hashes]);',
    replacement: 'return rows_.is_noted(g, slot.hashes[hits.size() * hashes]) && hits.empty();',
  },
  {
    name: 'n9',
    why: 'states are never let go',
    file: ROWS,
    text: '  u32 from = end;\n',
    replacement: '  u32 from = end;\n  if (from < kNone) return {from, 0};\n',
  },
  {
    name: 'n10',
    why: 'the rows of the last group are not given back',
    file: ROWS,
    text: 'for (u32 g = 0; g < num_groups_; ++g) facts_.log().list(Op::kRelease, row_of(slot, g));',
    replacement:
      'for (u32 g = 0; g < std::max(num_groups_ - 1, 1u); ++g) facts_.log().list(Op::kRelease, row_of(slot, g));',
  },
  {
    name: 'n11',
    why: 'the groups are given back in the wrong order',
    file: ROWS,
    text: 'for (u32 g = 0; g < num_groups_; ++g) facts_.log().list(Op::kRelease, row_of(slot, g));',
    replacement: 'for (u32 g = num_groups_; g-- > 0;) facts_.log().list(Op::kRelease, row_of(slot, g));',
  },
  {
    name: 'n12',
    why: 'blocks that are to be zeroed are not named for running requests',
    file: RUNNING,
    text: '    rows_.note_taken(slot, work.group, work.growth.taken);',
    replacement: '    rows_.note_taken(slot, work.group, 0);',
  },
  {
    name: 'n13',
    why: 'the rows of the groups are taken for one another',
    file: 'native/host/groups/group_rows.h',
    text: 'return slot.row * num_groups_ + g;',
    replacement: 'return slot.row * num_groups_ + (num_groups_ - 1 - g);',
  },
  {
    name: 'n14',
    why: 'an eviction leaves the block with the first bad token',
    file: ROWS,
    text: 'const u32 from = tokens / config_.groups[g].block_size;',
    replacement: 'const u32 from = divide_up(tokens, config_.groups[g].block_size);',
  },
  {
    name: 'n15',
    why: 'a hit of chunks ends within a chunk that is not there',
    file: SEARCH,
    text: 'if (length > first || end % group.chunk == 0 || !(config_.group_fixes & kChunkHits)) return length;',
    replacement: 'return length + end - end;',
  },
];
