#!/usr/bin/env python3
"""Breaks the core on purpose, one place at a time, and expects the tests to notice.

Each mutant is a copy of the native sources with one piece of text replaced. The tests below are built against it one after the
other until one is red: does not end in time, ends with an error, or is stopped by a sanitizer. A mutant that passes
them all has survived, and says that a test is missing. Usage: mutate.py [part of a name]...
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, '..')
COMPILER = [os.environ.get('CXX', 'g++'), '-std=c++20', '-pthread']
PLAIN = ['-O1']
CHECKED = ['-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all']
RACES = ['-O1', '-g', '-fsanitize=thread']


def sources(room, ending='.cc'):
    return sorted(os.path.relpath(os.path.join(folder, name), NATIVE)
                  for folder, _, names in os.walk(os.path.join(NATIVE, room)) for name in names if name.endswith(ending))


HOST_SOURCES = sources('transfer') + sources('host')
FAST = [
    ('core/model_test', PLAIN, ['1500']),
    ('core/state_test', PLAIN, []),
    ('core/log_test', PLAIN, ['200']),
    ('core/index_test', PLAIN, []),
    ('core/team_test', RACES, ['40']),
]
DECIDE = [
    ('core/decide_test', PLAIN, ['200']),
    ('core/decide_test', RACES, ['40', '2', '3', '5']),
    ('core/decide_test', CHECKED, ['100']),
]
DECIDED = [('host/decided_test', ['-O0'], ['60'])]
DECIDED_RACES = [('host/decided_test', RACES, ['60'])]
DECIDE_KERNELS = [('cuda/decide_kernel_test', RACES + ['-Wno-unknown-pragmas', '-Itest/gpu_shim/include', '-DGPU_SHIM_THREADS'], ['6'])]
HASH = [('core/hash_test', ['-O0'], [])]
MIRROR = [
    ('host/mirror_test', RACES + ['host/mirror/mirror.cc'], ['120']),
    ('host/host_test', PLAIN + HOST_SOURCES, ['400']),
]
KERNELS = [('cuda/kernel_test', RACES + ['-Wno-unknown-pragmas', '-Itest/gpu_shim/include', '-DGPU_SHIM_THREADS'], ['6'])]
THREADS = ['-Wno-unknown-pragmas', '-Itest/gpu_shim/include', '-DGPU_SHIM_THREADS']
GATHERER = [('host/gatherer_test', PLAIN + HOST_SOURCES, ['120'])]
GATHER = [
    ('cuda/gather_test', PLAIN + THREADS + HOST_SOURCES, ['60']),
    ('cuda/gather_test', RACES + THREADS + HOST_SOURCES, ['0']),
]
# The CUDA back end on the emulated GPU.
GPU = (['-O1', '-DBLOCKSTEP_BLOCK_THREADS=64', '-Wno-unknown-pragmas', '-Itest/gpu_shim/include']
       + sources('test/gpu_shim') + sources('cuda') + HOST_SOURCES + sources('reference'))
REFERENCE_KERNELS = [('cuda/reference_kernel_test', PLAIN + THREADS, [])]
GPU_KERNELS = sources('cuda', '.cu')
TABLES = [('gpu/tables_test', GPU + ['-x', 'c++'] + GPU_KERNELS + ['test/gpu/forward.cu', 'test/gpu/tables_reader.c', '-x', 'none'],
           ['--steps', '200'])]
DEVICE_REFERENCE = [('cuda/device_reference_test', GPU + ['-x', 'c++'] + GPU_KERNELS + ['-x', 'none'], ['30'])]
DEVICE_REFERENCE_RACES = [('cuda/device_reference_test', RACES + ['-DGPU_SHIM_THREADS'] + DEVICE_REFERENCE[0][1], ['3'])]
CUDA_LANES = [('cuda/cuda_lane_test', GPU + ['-x', 'c++'] + GPU_KERNELS + ['-x', 'none'], ['3'])]
LANE_SOURCES = ['transfer/completion_ring.cc', 'transfer/lane/copy_plan.cc', 'transfer/lane/host_lane.cc']
TRANSFER = [
    ('transfer/ring_test', PLAIN + LANE_SOURCES, ['100']),
    ('transfer/lane_test', PLAIN + LANE_SOURCES, ['100']),
    ('transfer/lane_test', RACES + LANE_SOURCES, ['200']),
    ('transfer/ring_test', RACES + LANE_SOURCES, ['100']),
]
TRANSFER_FILES = ['transfer/completion_ring.cc', 'transfer/lane/host_lane.cc', 'transfer/block_arena.h', 'transfer/lane/copy_plan.cc',
                  'transfer/lane/job_list.h', 'transfer/lane/job_pool.h']
SLOW = ('host/mirror_test', 'host/host_test', 'cuda/kernel_test', 'cuda/decide_kernel_test', 'cuda/gather_test', 'host/gatherer_test',
        'gpu/tables_test', 'cuda/device_reference_test', 'cuda/cuda_lane_test')
PATIENCE = (25, 120)  # seconds
LOG = [('core/log_test', ['-O0'], ['50'])]
STATE = [('core/state_test', ['-O0'], [])]

# (file, what is broken, text, its replacement). Files of native/core, or of another room if it is named.
MUTANTS = [
    ('core/blocks/free_queue.h', 'live bits before the first place', 'bits &= ~0u << (from & 31);\n    if (word == last)',
     ';\n    if (word == last)'),
    ('core/blocks/free_queue.h', 'live bits behind the last place', 'bits &= ~0u >> (31 - ((to - 1) & 31));', ';'),
    ('core/blocks/free_queue.h', 'a touched block stays in the queue', 'team.fetch_and(&state.live[block.place >> 5], '
     '~(1u << (block.place & 31)));', ''),
    ('core/blocks/free_queue.h', 'leaving clears bits with a plain write', 'team.fetch_and(&state.live[block.place >> 5], '
     '~(1u << (block.place & 31)));', 'state.live[block.place >> 5] &= ~(1u << (block.place & 31));'),
    ('core/blocks/free_queue.h', 'no upkeep', 'if (dead <= state.config.num_blocks) return;', 'return;'),
    ('core/blocks/free_queue.h', 'upkeep too slow', '4 * count', 'count'),
    ('core/blocks/free_queue.h', 'packed cursor behind the head', 'state.packed > state.head ? state.packed : state.head',
     'state.packed'),
    ('core/blocks/free_queue.h', 'unread cursor behind the head', 'state.unread > packed ? state.unread : packed', 'state.unread'),
    ('core/blocks/free_queue.h', 'upkeep leaves the old place live', 'if (place >= packed) team', 'if (false) team'),
    ('core/blocks/free_queue.h', 'upkeep clears the new place', 'if (place >= packed) team', 'team'),
    ('core/blocks/free_queue.h', 'upkeep never shortens the queue', 'state.tail = packed;', ''),
    ('core/blocks/free_queue.h', 'upkeep never ends', 'state.unread = kIdle;\n  }', '}'),
    ('core/blocks/free_queue.h', 'skip one word too many', 'word += leading;', 'word += leading + 1;'),
    ('core/blocks/free_queue.h', 'skip goes by one word of the team', 'team.count(empty && before == 0, leading);',
     'team.count(empty, leading);'),
    ('core/blocks/free_queue.h', 'skip moves back', 'word << 5 > from ? word << 5 : from', 'word << 5'),
    ('core/blocks/free_queue.h', 'no reference for a taken block', 'block.ref = 1;', ''),
    ('core/blocks/free_queue.h', 'no new generation', 'block.generation += 1;', ''),
    ('core/blocks/free_queue.h', 'reuse keeps the key', 'if (block.flags & kPublished) {', 'if (false) {'),
    ('core/blocks/free_queue.h', 'the head passes the whole window', 'head += passed;', 'head += team.size();'),
    ('core/blocks/free_queue.h', 'the head stays', 'state.head = head;', ''),
    ('core/blocks/block_pool.h', 'reversed order of release', 'list[count - 1 - i]', 'list[i]'),
    ('core/blocks/block_pool.h', 'release without upkeep', '  upkeep(team, state, count);\n  u32 fault = kNoFault;',
     '  u32 fault = kNoFault;'),
    ('core/blocks/block_pool.h', 'unpin without upkeep', '  upkeep(team, state, count);\n  team.sync', '  team.sync'),
    ('core/blocks/block_pool.h', 'release ignores other holders', 'team.count(held == 1, total);\n    if (held == 1)',
     'team.count(held >= 1, total);\n    if (held >= 1)'),
    ('core/blocks/block_pool.h', 'release below zero', 'if (held == 0) fault = kRefUnderflow;', ''),
    ('core/blocks/block_pool.h', 'a hit counts with a plain write', 'if (team.fetch_add(&block.ref, 1) != 0) return 0;',
     'if (block.ref++ != 0) return 0;'),
    ('core/blocks/block_pool.h', 'pins not counted', 'team.fetch_add(&block.pins, 1);', ''),
    ('core/blocks/block_pool.h', 'pins not taken back', 'if (team.fetch_sub(&block.pins, 1) == 0) fault = kRefUnderflow;', ''),
    ('core/blocks/block_pool.h', 'a pinned block stays free', 'state.num_free -= total;', ''),
    ('core/blocks/block_pool.h', 'unpin once too often',
     'if (team.fetch_sub(&block.pins, 1) == 0) fault = kRefUnderflow;', 'team.fetch_sub(&block.pins, 1);'),
    ('core/blocks/block_pool.h', 'unpin finds a stale place', 'team.store(&state.blocks[ids[i]].place, 0);', ';'),
    ('core/blocks/block_pool.h', 'unpin queues at the first occurrence', 'team.fetch_max(&block.place, i + 1);',
     'if (team.load(&block.place) == 0) team.store(&block.place, i + 1);'),
    ('core/blocks/block_pool.h', 'unpin queues every occurrence', 'state.blocks[id].ref == 0 && state.blocks[id].place == i + 1',
     'state.blocks[id].ref == 0'),
    ('core/blocks/block_pool.h', 'unpin queues what is still held', 'state.blocks[id].ref == 0 && state.blocks[id].place == i + 1',
     'state.blocks[id].place == i + 1'),
    ('core/blocks/prefix_index.h', 'the newest twin answers', 'block.stamp < oldest',
     'block.stamp >= (best == kNone ? 0 : oldest)'),
    ('core/blocks/prefix_index.h', 'half a key is enough (low)', 'if (block.key == key', 'if (block.key.lo == key.lo'),
    ('core/blocks/prefix_index.h', 'half a key is enough (high)', 'if (block.key == key', 'if (block.key.hi == key.hi'),
    ('core/blocks/prefix_index.h', 'hits behind a miss', 'if (misses != 0) break;', ''),
    ('core/blocks/prefix_index.h', 'hits behind a miss in a window', 'hit && before == 0', 'hit'),
    ('core/blocks/prefix_index.h', 'publish of a published block', 'fault = lower(fault, kAlreadyPublished);\n      continue;', ''),
    ('core/blocks/prefix_index.h', 'publish past the row', '|| entry[1] >= row.num_blocks', ''),
    ('core/blocks/prefix_index.h', 'publish to a free row', '!row.in_use || entry[1]', 'entry[1]'),
    ('core/blocks/prefix_index.h', 'stamps of one command are equal', 'block.stamp = state.next_stamp + i;',
     'block.stamp = state.next_stamp;'),
    ('core/blocks/prefix_index.h', 'stamps do not go on', 'state.next_stamp += count;', ''),
    ('core/blocks/prefix_index.h', 'published blocks not counted', 'state.num_published += count;', ''),
    ('core/blocks/prefix_index.h', 'dropped blocks not counted', 'state.num_published -= total;', ''),
    ('core/blocks/prefix_index.h', 'evictions not counted', 'state.evictions += total;', ''),
    ('core/blocks/prefix_index.h', 'chains linked with a plain write',
     'block.next = team.exchange(bucket_of(state, block.key), id);',
     'block.next = *bucket_of(state, block.key); *bucket_of(state, block.key) = id;'),
    ('core/blocks/prefix_index.h', 'dropped blocks stay in the chain',
     'if (!(team.load(&state.blocks[id].flags) & kPublished)) continue;', ''),
    ('core/blocks/prefix_index.h', 'a bucket has two unlinkers', 'if (id & kLock) continue;', 'id &= ~kLock;'),
    ('core/blocks/prefix_index.h', 'a bucket stays locked', 'if (flags & kUnlinker) team', 'if (false) team'),
    ('core/blocks/prefix_index.h', 'the chain is not cut', 'if (last != kNullBlock) state.blocks[last].next = kNullBlock;', ''),
    ('core/blocks/prefix_index.h', 'transient flags stay', 'if (flags & kDropped) team.fetch_and(&block.flags, kPublished);', ''),
    ('core/blocks/prefix_index.h', 'evict counts repetitions', '& kPublished)) continue;\n    team.fetch_or(flags',
     '& 7)) continue;\n    team.fetch_or(flags'),
    ('core/blocks/prefix_index.h', 'reset while in use',
     'if (state.num_free != state.config.num_blocks - 1) return kBlocksInUse;', ''),
    ('core/blocks/prefix_index.h', 'reset keeps the buckets', 'state.buckets[i] = kNullBlock;', ';'),
    ('core/blocks/prefix_index.h', 'reset keeps the flags', 'state.blocks[id].flags = 0;', ';'),
    ('core/blocks/row_table.h', 'open of a row in use', 'if (row.in_use) fault = kRowInUse;', ''),
    ('core/blocks/row_table.h', 'open too long', 'if (count > state.config.max_blocks_per_row) return kRowTooLong;', ''),
    ('core/blocks/row_table.h', 'hits stay free', 'state.num_free -= total;', ''),
    ('core/blocks/row_table.h', 'open without a vote', 'return agree(team, fault);', 'return fault;'),
    ('core/blocks/row_table.h', 'no new row generation', 'row.generation += 1;', ''),
    ('core/blocks/row_table.h', 'blocks go to the next row', 'state.grants[from + 1].first > index',
     'state.grants[from + 1].first >= index'),
    ('core/blocks/row_table.h', 'blocks go to the row before', '<= index ? low : high', '< index ? low : high'),
    ('core/blocks/row_table.h', 'extend by nothing', 'if (n == 0) found = lower(found, kBadCommand);', ''),
    ('core/blocks/row_table.h', 'extend names a row twice', 'found = lower(found, kRowRepeated);', ';'),
    ('core/blocks/row_table.h', 'extend of a free row', 'if (!row.in_use) found', 'if (false) found'),
    ('core/blocks/row_table.h', 'extend too long', 'if (n > state.config.max_blocks_per_row - row.num_blocks)', 'if (false)'),
    ('core/blocks/row_table.h', 'extend beyond the free blocks',
     'if (wanted > state.num_free) found = lower(found, kNoFreeBlocks);', ''),
    ('core/blocks/row_table.h', 'extend beyond the results', 'if (wanted > results.capacity - num_ids) return kResultsFull;', ''),
    ('core/blocks/row_table.h', 'extend without a vote', 'fault = agree(team, found);', 'fault = found;'),
    ('core/blocks/row_table.h', 'more pairs than rows', 'if (count > state.config.num_rows) return kBadCommand;', ''),
    ('core/blocks/row_table.h', 'grants of one window only', 'wanted += total;', 'wanted = total;'),
    ('core/blocks/row_table.h', 'a claim stays', 'row.claimed = 0;', ''),
    ('core/blocks/row_table.h', 'one block for each row', 'const bool one_each = n == count;', 'const bool one_each = true;'),
    ('core/blocks/row_table.h', 'taken blocks not counted', 'state.num_taken += n;', ''),
    ('core/blocks/row_table.h', 'the ids of one command overwrite the last', 'num_ids += n;', 'num_ids = n;'),
    ('core/blocks/row_table.h', 'dropped blocks not unlinked', 'drop_marked(team, state, ids, n, dropped);', ''),
    ('core/blocks/row_table.h', 'release of a free row', 'if (!row.in_use) return kRowNotInUse;', ''),
    ('core/blocks/row_table.h', 'release without a vote',
     'fault = agree(team, fault);\n    if (fault != kNoFault) return fault;\n    if (team.rank()', 'if (team.rank()'),
    ('core/blocks/row_table.h', 'the row stays in use', 'row.in_use = 0;', ''),
    ('core/blocks/row_table.h', 'the row keeps its blocks', '      row.num_blocks = 0;\n', ''),
    ('core/blocks/apply.h', 'a payload past the end', 'payload < words - at', 'payload <= words - at'),
    ('core/blocks/apply.h', 'a poisoned state goes on', 'at < words && state.fault == kNoFault', 'at < words'),
    ('core/blocks/apply.h', 'the first member digests alone', 'team.sum(state.rolling_digest)',
     'state.rolling_digest; team.sync()'),
    ('core/blocks/apply.h', 'counts not digested', 'state.rolling_digest += mix(mix(', 'state.num_taken += 0 * mix(mix('),
    ('core/blocks/apply.h', 'evictions since ever', 'state.evictions - shared.evictions', 'state.evictions'),
    ('core/base/fault.h', 'the fault of whoever is first', 'if (any(team, fault == code)) return code;',
     'return fault ? fault : code;'),
    ('core/base/state.h', 'one word of live bits', 'return places < 64 ? 64 : places;', 'return places;'),
    ('core/base/state.h', 'a ring of twice the blocks', 'round_to_power(u64{4} * c.num_blocks)',
     'round_to_power(u64{2} * c.num_blocks)'),
    ('core/decide/batch.h', 'a batch of any length', 'if (count < kWordsOf<BatchHeader>) return false;', ''),
    ('core/decide/batch.h', 'any version', 'header.version != kBatchVersion || ', ''),
    ('core/decide/batch.h', 'a batch that is cut off', 'header.words > count || ', ''),
    ('core/decide/batch.h', 'blocks of no tokens', ' || header.block_size == 0', ''),
    ('core/decide/batch.h', 'sections past the end', 'if (admissions > header.words) return false;', ''),
    ('core/decide/draft.h', 'no room for the log', 'if (words < draft.max_log - draft.log_words) return', 'return'),
    ('core/decide/draft.h', 'room for the payload, not for its head', 'if (words < draft.max_log', 'if (words <= draft.max_log'),
    ('core/decide/draft.h', 'no head in the log', 'if (team.rank() == 0) words[0] = head;', ''),
    ('core/decide/draft.h', 'a command is not counted', '  note_command(team, state);\n', ''),
    ('core/decide/draft.h', 'the next command overwrites the last', 'draft.log_words += 1 + payload_words(head);', ''),
    ('core/decide/decide.h', 'an entry that needs every free block does not run', '+ mine <= state.num_free, fit', '+ mine < state.num_free, fit'),
    ('core/decide/decide.h', 'running entries run into an empty pool', 'i < count && wanted - total + before + mine <= state.num_free', 'i < count'),
    ('core/decide/decide.h', 'each running entry for itself', 'wanted - total + before + mine', 'mine'),
    ('core/decide/decide.h', 'windows of running entries are counted alone', 'wanted += total;\n    team.count(', 'wanted = total;\n    team.count('),
    ('core/decide/decide.h', 'an Extend by nothing', 'i < count && entries[i].num_new != 0', 'i < count'),
    ('core/decide/decide.h', 'pairs of one window only', 'growing += total;', 'growing = total;'),
    ('core/decide/decide.h', 'an empty Extend', '  if (growing == 0) return;\n', ''),
    ('core/decide/draft.h', 'a block behind the row', 'return index < row.num_blocks ?', 'return true ?'),
    ('core/decide/draft.h', 'blocks of one holder are contested', 'return block.ref > 1;', 'return true;'),
    ('core/decide/draft.h', 'a claim finds a stale place', 'team.store(&block->place, 0);', ''),
    ('core/decide/draft.h', 'nobody claims', 'contested = true;', ''),
    ('core/decide/draft.h', 'the last claim wins', 'team.fetch_max(&block->place, count - i)', 'team.fetch_max(&block->place, i + 1)'),
    ('core/decide/draft.h', 'published again', 'if (block && (block->flags & kPublished)) wants = false;', ''),
    ('core/decide/draft.h', 'every claim wins', ' && team.load(&block->place) != count - i) wants', ' && false) wants'),
    ('core/decide/draft.h', 'publications of one window only', 'wanted += total;\n  }\n  if (wanted == 0)', 'wanted = total;\n  }\n  if (wanted == 0)'),
    ('core/decide/draft.h', 'an empty Publish', '  if (wanted == 0) return;\n', ''),
    ('core/decide/draft.h', 'half a key', 'word < 4; ++word', 'word < 2; ++word'),
    ('core/decide/decide.h', 'publications of entries that did not run', 'batch.running[count - 1].publications_end', 'batch.header->num_publications'),
    ('core/decide/decide.h', 'publications past their section', 'if (publications > batch.header->num_publications) {', 'if (false) {'),
    ('core/decide/decide.h', 'publications after a fault', 'state.fault == kNoFault && publications != 0', 'publications != 0'),
    ('core/decide/admit.h', 'a pinned block counts as free', 'mine += state.blocks[ids[i]].ref == 0;', 'mine += 1;'),
    ('core/decide/admit.h', 'hits are counted by each member', 'team.scan(mine, total);\n  return total;', 'team.scan(mine, total);\n  return mine;'),
    ('core/decide/admit.h', 'the last hit stays', 'num_hits -= 1;', ''),
    ('core/decide/admit.h', 'a drop below zero', 'if (num_hits != 0 && drops)', 'if (drops)'),
    ('core/decide/admit.h', 'a lookup for what is computed', 'if (admission.num_computed != 0 || admission.row != kNone) return 0;', 'if (admission.row != kNone) return 0;'),
    ('core/decide/admit.h', 'the block of the last token hits', '(admission.num_tokens - 1) / header.block_size', 'admission.num_tokens / header.block_size'),
    ('core/decide/batch.h', 'hits are computed again', 'return num_hits * block_size + admission.num_external;', 'return admission.num_external;'),
    ('core/decide/batch.h', 'what is brought is computed again', 'return num_hits * block_size + admission.num_external;', 'return num_hits * block_size;'),
    ('core/decide/batch.h', 'what is computed is computed again', 'if (admission.num_computed != 0) return admission.num_computed;', ''),
    ('core/decide/batch.h', 'everything computed', 'if (admission.num_computed >= admission.num_tokens) return false;', ''),
    ('core/decide/batch.h', 'brought behind any hits', 'return admission.num_external == 0 && !loads;\n  if', 'return !loads;\n  if'),
    ('core/decide/batch.h', 'a load behind any hits', 'return admission.num_external == 0 && !loads;\n  if', 'return admission.num_external == 0;\n  if'),
    ('core/decide/batch.h', 'hits of what is computed', 'return admission.num_hits == 0 && admission', 'return admission'),
    ('core/decide/batch.h', 'brought to what is computed', 'admission.num_hits == 0 && admission.num_external == 0 && !loads', 'admission.num_hits == 0 && !loads'),
    ('core/decide/batch.h', 'a load of what is computed', 'admission.num_hits == 0 && admission.num_external == 0 && !loads', 'admission.num_hits == 0 && admission.num_external == 0'),
    ('core/decide/batch.h', 'told tokens overflow', 'u64{admission.num_hits} * block_size', 'admission.num_hits * block_size'),
    ('core/decide/batch.h', 'nothing left to load', 'loads ? known <= admission.num_tokens :', 'loads ? true :'),
    ('core/decide/batch.h', 'nothing left to compute', ': known < admission.num_tokens;', ': known <= admission.num_tokens;'),
    ('core/decide/admit.h', 'told hits are dropped', 'admission.num_hits == kNone && (header.flags', '(header.flags'),
    ('core/decide/admit.h', 'fewer hits than were told', 'if (admission.num_hits != kNone && num_hits != admission.num_hits) return kStopHits;', ''),
    ('core/decide/admit.h', 'more hits than were told', 'return lesser(most, admission.num_hits);', 'return most;'),
    ('core/decide/admit.h', 'what loads first computes', 'admission.flags & kLoadsFirst ? 0 :', 'false ? 0 :'),
    ('core/decide/admit.h', 'what loads first publishes', ' || (admission.flags & kLoadsFirst)) return;', ') return;'),
    ('core/decide/decide.h', 'what loads first counts as a request', '(admission.flags & kLoadsFirst) == 0;', '1;'),
    ('core/decide/admit.h', 'no limit of a chunk', 'if (header.prefill_limit != 0) chunk', 'if (false) chunk'),
    ('core/decide/admit.h', 'a limit of no tokens', 'if (header.prefill_limit != 0) chunk', 'chunk'),
    ('core/decide/admit.h', 'a chunk beyond the budget', 'if (chunk > budget) {', 'if (false) {'),
    ('core/decide/admit.h', 'prefills are always chunked', 'if (!(header.flags & kChunkedPrefill)) return kStopBudget;', ''),
    ('core/decide/admit.h', 'lookahead for what is new', '(fresh ? 0 : header.lookahead)', 'header.lookahead'),
    ('core/decide/admit.h', 'no lookahead', '(fresh ? 0 : header.lookahead)', '0'),
    ('core/decide/admit.h', 'room beyond the limit', 'lesser(computed + chunk + (fresh ? 0 : header.lookahead), header.slot_limit)', 'computed + chunk + (fresh ? 0 : header.lookahead)'),
    ('core/decide/admit.h', 'a held row counts for nothing', 'opens ? num_hits : state.rows[admission.row].num_blocks', 'num_hits'),
    ('core/decide/admit.h', 'a row shrinks', 'greater(blocks_for(needed), held)', 'blocks_for(needed)'),
    ('core/decide/admit.h', 'no reserve', 'header.flags & kReserveAll ?', 'false ?'),
    ('core/decide/admit.h', 'always a reserve', 'header.flags & kReserveAll ?', 'true ?'),
    ('core/decide/admit.h', 'a reserve below the need', 'greater(blocks_for(admission.num_tokens), total)', 'blocks_for(admission.num_tokens)'),
    ('core/decide/admit.h', 'free hits count twice', ' - held + hit_free > state.num_free', ' - held > state.num_free'),
    ('core/decide/admit.h', 'the last free block is never given', 'hit_free > state.num_free) return', 'hit_free >= state.num_free) return'),
    ('core/decide/admit.h', 'the free blocks are not looked at', 'if (u64{reserve} - held + hit_free > state.num_free) return kStopBlocks;', ''),
    ('core/decide/admit.h', 'no row needed', 'if (row == kNone) return kStopRows;', ''),
    ('core/decide/admit.h', 'rows before blocks', '  if (u64{reserve} - held', '  if (opens && free_row == kNone) return kStopRows;\n  if (u64{reserve} - held'),
    ('core/decide/admit.h', 'the answer has no hits', '  answer.num_hits = num_hits;\n', ''),
    ('core/decide/admit.h', 'the answer has no row', '  answer.row = row;\n', ''),
    ('core/decide/admit.h', 'the answer has no tokens', '  answer.num_tokens = chunk;\n', ''),
    ('core/decide/admit.h', 'the answer has no blocks', '  answer.num_blocks = total;\n', ''),
    ('core/decide/admit.h', 'the answer has no new blocks', '  answer.num_new = total - held;\n', ''),
    ('core/decide/admit.h', 'the answer has no ids', '  answer.first_id = draft.num_ids;\n', ''),
    ('core/decide/admit.h', 'a row is opened that is held', '  if (opens) {\n', '  {\n'),
    ('core/decide/admit.h', 'an Extend after a fault', 'if (state.fault == kNoFault && answer.num_new != 0)', 'if (answer.num_new != 0)'),
    ('core/decide/admit.h', 'an admission by no blocks', 'if (state.fault == kNoFault && answer.num_new != 0)', 'if (state.fault == kNoFault)'),
    ('core/decide/admit.h', 'a Publish after a fault', 'if (state.fault != kNoFault || (admission.flags', 'if ((admission.flags'),
    ('core/decide/admit.h', 'keys of an opened row begin later', 'opens ? 0 : admission.num_published;', 'admission.num_published + answer.num_hits;'),
    ('core/decide/admit.h', 'a partial block is published', '(computed + answer.num_tokens) / header.block_size', '(computed + answer.num_tokens + header.block_size - 1) / header.block_size'),
    ('core/decide/admit.h', 'publications without keys', 'lesser(full, first_key + admission.num_keys)', 'full'),
    ('core/decide/decide.h', 'admissions without a budget', '    if (budget == 0) return kStopBudget;\n', ''),
    ('core/decide/decide.h', 'any number of requests', '    if (num_started == header.request_budget) return kStopRequests;\n', ''),
    ('core/decide/decide.h', 'keys past the end', 'left - kWordsOf<Admission> < u64{4} * admission.num_keys ||', ''),
    ('core/decide/decide.h', 'the words of keys overflow', 'u64{4} * admission.num_keys', '4 * admission.num_keys'),
    ('core/decide/decide.h', 'an admission past the end', 'left < kWordsOf<Admission> || left', 'left'),
    ('core/decide/decide.h', 'an admission with nothing to compute', ' ||\n        !makes_sense(header.block_size, admission)) {', ') {'),
    ('core/decide/decide.h', 'every admission gets the first free row', 'num_opened += admission.row == kNone;', ''),
    ('core/decide/decide.h', 'a held row takes a free one too', 'num_opened += admission.row == kNone;', 'num_opened += 1;'),
    ('core/decide/decide.h', 'rows behind the free ones', 'num_opened < header.num_rows ? batch.rows[num_opened] : kNone', 'batch.rows[num_opened]'),
    ('core/decide/decide.h', 'the budget does not shrink', 'budget -= answer.num_tokens;', ''),
    ('core/decide/admit.h', 'what does not fit is granted', 'if (stop != kNotStopped) return stop;', ''),
    ('core/decide/decide.h', 'admissions go on behind one that does not fit', 'if (stop != kNotStopped) return stop;', ''),
    ('core/decide/decide.h', 'no answer for one that does not fit', '    decision.num_answers = i + 1;\n    if (stop != kNotStopped) return stop;\n', '    if (stop != kNotStopped) return stop;\n    decision.num_answers = i + 1;\n'),
    ('core/decide/decide.h', 'a malformed batch', '!read_batch(words, count, batch)) state.fault = kBadCommand;', '(read_batch(words, count, batch), false)) state.fault = kBadCommand;'),
    ('core/decide/decide.h', 'the facts are not applied', 'apply_log(team, state, batch.facts, batch.header->fact_words, draft.results, draft.num_ids);', ';'),
    ('core/decide/decide.h', 'a poisoned state decides', 'if (state.fault == kNoFault && !read_batch', 'state.fault = kNoFault; if (!read_batch'),
    ('core/decide/decide.h', 'running after a fault in the facts', '  if (state.fault == kNoFault) {\n    header.num_run', '  {\n    header.num_run'),
    ('core/decide/decide.h', 'admissions although a running entry did not fit', 'state.fault == kNoFault && header.stop == kNotStopped', 'state.fault == kNoFault'),
    ('core/decide/decide.h', 'no reason when a running entry did not fit', 'header.stop = kStopRunning;', ';'),
    ('core/decide/decide.h', 'a fault with half a decision', '    header = {};\n', ''),
    ('core/decide/decide.h', 'the rolling digest starts anew', 'fold_digest(team, shared, state);', 'state.rolling_digest = team.sum(state.rolling_digest);'),
    ('core/decide/decide.h', 'the state is not written back', '    shared = state;\n', ''),
    ('core/decide/decide.h', 'one member copies', 'for (u32 i = team.rank(); i < count; i += team.size()) to[i] = from[i];', 'for (u32 i = team.rank(); i < count; i += team.size() + 1) to[i] = from[i];'),
]

MIRROR_MUTANTS = [
    ('host/mirror/mirror.cc', 'the bound is ignored', '|| outstanding() == limits_.max_logs', ''),
    ('host/mirror/mirror.cc', 'the bound is one too many', 'outstanding() == limits_.max_logs',
     'outstanding() == limits_.max_logs + 1'),
    ('host/mirror/mirror.cc', 'a slot is reused too early', 'given_ % limits_.max_logs);\n  const Job',
     'given_ % (limits_.max_logs - 1));\n  const Job'),
    ('host/mirror/mirror.cc', 'a completion is read without acquire', 'load(std::memory_order_acquire);\n  if (word ==',
     'load(std::memory_order_relaxed);\n  if (word =='),
    ('host/mirror/mirror.cc', 'a digest is read without acquire', 'completion.word.load(std::memory_order_acquire) !=',
     'completion.word.load(std::memory_order_relaxed) !='),
    ('host/mirror/mirror.cc', 'any other word is a completion', 'if (word >> 32 != expected.number) {', 'if (false) {'),
    ('host/mirror/mirror.cc', 'an old word is a completion', 'if (word == expected.last_word) return false;',
     'if (word == 0) return false;'),
    ('host/mirror/mirror.cc', 'faults are not read', 'if (const u32 fault = static_cast<u32>(word)) {',
     'if (const u32 fault = 0) {'),
    ('host/mirror/mirror.cc', 'digests are not compared', 'expected.has_digest && completion.digest != expected.digest',
     'false'),
    ('host/mirror/mirror.cc', 'digests are never expected', 'next_mark_ != 0 && marks_[next_mark_ - 1].end == end', 'false'),
    ('host/mirror/mirror.cc', 'digests are always expected', 'next_mark_ != 0 && marks_[next_mark_ - 1].end == end',
     'next_mark_ != 0'),
    ('host/mirror/mirror.cc', 'the digest of the state is not compared', 'completion.digest != host_digest_', 'false'),
    ('host/mirror/mirror.cc', 'a digest passes logs that wait', 'digest_waits && digest_at_ == sent_', 'digest_waits'),
    ('host/mirror/mirror.cc', 'logs pass a digest that waits', 'digest_waits ? digest_at_ : ready_', 'ready_'),
    ('host/mirror/mirror.cc', 'two digests at once',
     'if (digest_state_ != Digest::kAbsent) throw Error{kLimit, "a digest is under way already: poll until it is there"};',
     ''),
    ('host/mirror/mirror.cc', 'an old digest is taken for the new one', '  digest_.reset();\n', ''),
    ('host/mirror/mirror.cc', 'a full slot waits', 'waiting_words() >= limits_.slot_words', 'false'),
    ('host/mirror/mirror.cc', 'every log goes at once', 'waiting_words() >= limits_.slot_words', 'true'),
    ('host/mirror/mirror.cc', 'poll gives what was not submitted', 'void Mirror::poll() {\n',
     'void Mirror::poll() {\n  ready_ = words_.size();\n'),
    ('host/mirror/mirror.cc', 'poll gives nothing', 'pump();\n}\n\nvoid Mirror::start_digest', '}\n\nvoid Mirror::start_digest'),
    ('host/mirror/mirror.cc', 'no limit', 'waiting_words() + words > limits_.max_waiting_words', 'false'),
    ('host/mirror/mirror.cc', 'nobody asks in poll', '} else if (!idle() && ++fruitless_polls_ % kPatience == 0) {',
     '} else if (false) {'),
    ('host/mirror/mirror.cc', 'nobody asks in submit', 'if (!news && sent_ != ready_) device_->check();', ''),
    ('host/mirror/mirror.cc', 'logs are cut anywhere', 'mark.end > limit ||', ''),
    ('host/mirror/mirror.cc', 'logs take too much', '|| mark.taken - taken > limits_.max_taken', ''),
    ('host/mirror/mirror.cc', 'ids of earlier logs count', 'const u64 taken = sent_taken_;', 'const u64 taken = 0;'),
    ('host/mirror/mirror.cc', 'a command is torn', 'if (next > limit) break;', 'if (false) break;'),
    ('host/mirror/mirror.cc', 'marks are not moved', 'for (Mark& mark : marks_) mark.end -= sent_;', ''),
    ('host/mirror/mirror.cc', 'the digest is not moved', 'digest_at_ -= std::min(digest_at_, sent_);', ''),
    ('host/mirror/mirror.cc', 'what is ready is not moved', '  ready_ -= sent_;\n', ''),
    ('host/mirror/mirror.cc', 'nothing goes behind the stream', 'if (stream) device_->follow(*stream);', ''),
    ('host/mirror/mirror.cc', 'the stream does not wait', 'if (stream) device_->lead(*stream);', ''),
    ('host/mirror/mirror.cc', 'the slot stays empty', 'std::copy_n(log, words, device_->slot(slot));', ''),
    ('host/device/device.h', 'a log too long for its carrier', 'words <= kSmallWords ?', 'words <= kSmallWords + 1 ?'),
    ('host/device/device.h', 'a log too long for any parameter', 'words <= kLargeWords ?', 'words <= 2 * kLargeWords ?'),
    ('host/mirror/mirrored.cc', 'nothing is mirrored', 'ask_mirror([&] { mirror_->append(log_.words(), log_.size(), taken, '
     'state_.rolling_digest); });', ''),
    ('host/core.h', 'an error passes by', 'poison(std::move(error.message), error.code);', 'throw;'),
    ('host/mirror/mirrored.cc', 'a second digest poisons',
     'if (mirror_->digest_pending()) throw Error{kLimit, "a digest is under way already: poll until it is there"};', ''),
    ('host/core.cc', 'the code of the mirror is lost', 'throw Error{poison_code_, poisoned_};',
     'throw Error{kInvariant, poisoned_};'),
    ('host/device/self_test.h', 'the first answer is not checked', 'if (first != mailbox_reply(kFirstAsk)) return',
     'if (false) return'),
    ('host/device/self_test.h', 'the second answer is not checked', 'if (second == mailbox_reply(kSecondAsk)) return nullptr;',
     'if (second != kMailboxGaveUp) return nullptr;'),
    ('host/device/self_test.h', 'giving up is good enough', 'if (second == kMailboxGaveUp) return kUnseen;',
     'if (second == kMailboxGaveUp) return nullptr;'),
    ('host/device/self_test.h', 'no answer is good enough', 'if (first == 0) return "the host', 'if (false) return "the host'),
]

KERNEL_MUTANTS = [
    ('cuda/kernels/cta_team.cuh', 'one buffer', 'turn_ ^= 1;', ''),
    ('cuda/kernels/cta_team.cuh', 'no barrier', '    __syncthreads();\n    Number', '    Number'),
    ('cuda/kernels/cta_team.cuh', 'sync does nothing', 'void sync() { __syncthreads(); }', 'void sync() {}'),
    ('cuda/kernels/cta_team.cuh', 'a member counts itself', '((1u << lane()) - 1)', '((2u << lane()) - 1)'),
    ('cuda/kernels/cta_team.cuh', 'a warp counts itself', 'if (i < warp())', 'if (i <= warp())'),
    ('cuda/kernels/cta_team.cuh', 'the other warps do not count', 'if (i < warp())', 'if (false)'),
    ('cuda/kernels/cta_team.cuh', 'the first lane adds itself', 'if (lane() >= distance) upto', 'upto'),
    ('cuda/kernels/cta_team.cuh', 'the scan stops early', 'distance < 32; distance *= 2', 'distance < 16; distance *= 2'),
    ('cuda/kernels/cta_team.cuh', 'the sum starts too low', 'distance = 16; distance', 'distance = 8; distance'),
    ('cuda/kernels/cta_team.cuh', 'the scan of the first lane', 'lane() == 31, total', 'lane() == 0, total'),
    ('cuda/kernels/cta_team.cuh', 'a sum of 32 bits', 'across_warps<u64>(value', 'across_warps<u64>(static_cast<u32>(value)'),
    ('cuda/kernels/launch.cuh', 'the completion is not released', 'cuda::memory_order_release);\n}', 'cuda::memory_order_relaxed);\n}'),
    ('cuda/kernels/launch.cuh', 'the completion without its fault', 'completion_word(number, fault)', 'completion_word(number, 0)'),
    ('cuda/kernels/kernels.cu', 'another completion', 'home->completions + slot', 'home->completions'),
    ('cuda/kernels/fetch.cuh', 'the fetch is not synchronised', '  __syncthreads();\n}', '}'),
    ('cuda/kernels/fetch.cuh', 'the fetch forgets the end', 'const u32 count = (words + 3) / 4;', 'const u32 count = words / 4;'),
    ('cuda/kernels/fetch.cuh', 'the fetch writes past the end', 'if (at < count) target[at]', 'target[at]'),
    ('cuda/kernels/kernels.cu', 'parts count themselves', 'team.rank() < blockIdx.x ?', 'team.rank() <= blockIdx.x ?'),
    ('cuda/kernels/kernels.cu', 'the sum stays', 'sum.exchange(0, ::cuda::memory_order_relaxed)',
     'sum.load(::cuda::memory_order_relaxed)'),
    ('cuda/kernels/kernels.cu', 'the parts stay', '  parts.store(0, ::cuda::memory_order_relaxed);\n', ''),
    ('cuda/kernels/kernels.cu', 'the first part answers', '!= kParts - 1) return;', '!= 0) return;'),
    ('cuda/kernels/kernels.cu', 'the second question is not awaited', 'second == first && now() - start < kPatienceNanoseconds',
     'false'),
]

DECIDED_MUTANTS = [
    ('host/mirror/mirror.cc', 'facts pass a digest that waits', 'digest_state_ == Digest::kWaiting || waiting_words() > limit', 'waiting_words() > limit'),
    ('host/mirror/mirror.cc', 'more facts than the batch has room for', ' || waiting_words() > limit) {', ') {'),
    ('host/mirror/mirror.cc', 'facts twice', '  sent_ = ready_ = words_.size();\n', ''),
    ('host/mirror/mirror.cc', 'what went ahead may still be here', '    return all_given();', '    return true;'),
    ('host/decided/decider.cc', 'facts without a limit', 'room_.batch_words - batch.size()', 'room_.batch_words'),
    ('host/decided/decider.cc', 'the batch overtakes its facts', '  if (alone) launch();', '  launch();'),
    ('host/decided/decider.cc', 'a batch that was kept overtakes', 'if (mirror_.all_given()) launch();', 'launch();'),
    ('host/decided/decider.cc', 'a batch that was kept stays', 'if (mirror_.all_given()) launch();', ''),
    ('host/decided/decider.cc', 'the slot stays empty', 'std::copy(words_->begin(), words_->end(), device.batch());', ''),
    ('host/decided/decider.cc', 'nobody asks', 'if (++fruitless_polls_ % kPatience == 0) device.check();', ''),
    ('host/decided/decider.cc', 'any other word is a completion', 'if (word >> 32 != number_) {', 'if (false) {'),
    ('host/decided/decider.cc', 'faults are not read', 'if (const u32 fault = static_cast<u32>(word)) {', 'if (const u32 fault = 0) {'),
    ('host/decided/decider.cc', 'any version', 'header.version == kDecisionVersion && ', ''),
    ('host/decided/decider.cc', 'any fault', 'header.fault == kNoFault && ', ''),
    ('host/decided/decider.cc', 'any stop', 'header.stop <= kStopHits &&', 'true &&'),
    ('host/decided/decider.cc', 'any number of entries', 'header.num_run <= running && ', ''),
    ('host/decided/decider.cc', 'entries and stop do not agree', ' && ran == (header.stop != kStopRunning) &&', ' &&'),
    ('host/decided/decider.cc', 'any number of answers', 'header.num_answers <= (ran ? batch_->num_admissions() : 0) &&', 'true &&'),
    ('host/decided/decider.cc', 'many are not admitted', 'header.num_answers - header.num_admitted <= 1 &&', 'true &&'),
    ('host/decided/decider.cc', 'all are admitted, and yet a stop', '(!ran || (header.stop == kNotStopped) == (header.num_admitted == batch_->num_admissions())) &&', 'true &&'),
    ('host/decided/decider.cc', 'any number of ids', 'header.num_ids <= num_blocks_ && ', ''),
    ('host/decided/decider.cc', 'any length of the log', ' && header.log_words <= room_.max_log;', ';'),
    ('host/decided/decider.cc', 'any length', '!numbers || header.words != decision_words(header.num_answers, header.num_ids, header.log_words)', '!numbers'),
    ('host/decided/decided.cc', 'a decision of a core that decides itself', '  if (decider_) return;\n', '  return;\n'),
    ('host/decided/decided.cc', 'a second decision', 'require_decider("submitDecision");\n  begin_change();', 'require_decider("submitDecision");'),
    ('host/decided/decided.cc', 'any range', '  check_range(from, to);\n', ''),
    ('host/decided/decided.cc', 'any request', '  check_request(request);\n', ''),
    ('host/decided/decided.cc', 'what is pending is decided without', '  drain();\n', ''),
    ('host/decided/decided.cc', 'any frame', '  check_frame(frame, from, to);\n', ''),
    ('host/decided/decided.cc', 'marks stay', 'for (const Asked& asked : admissions_) table_[asked.slot].mark = 0;  // left', '// left'),
    ('host/decided/decided.cc', 'room beyond the limit', 'plan_run(frame, from, to, slot_limit, ~u64{0});', 'plan_run(frame, from, to, config_.max_model_len, ~u64{0});'),
    ('host/decided/decided.cc', 'the host decides how many run', 'plan_run(frame, from, to, slot_limit, ~u64{0});', 'plan_run(frame, from, to, slot_limit, state_.num_free);'),
    ('host/decided/decided.cc', 'nobody knows of it', '  set_deciding(true);\n', ''),
    ('host/decided/decided.cc', 'any slot limit', 'if (limit < 1 || static_cast<u32>(limit) > config_.max_model_len) {', 'if (false) {'),
    ('host/decided/decided.cc', 'any slot', 'if (asked.slot < 0 || !table_.is_open(static_cast<u32>(asked.slot))) {', 'if (false) {'),
    ('host/decided/decided.cc', 'a slot twice', 'if (slot.mark || runs) throw', 'if (runs) throw'),
    ('host/decided/decided.cc', 'a slot of the frame', 'if (slot.mark || runs) throw', 'if (slot.mark) throw'),
    ('host/decided/decided.cc', 'more tokens than can have room', 'if (slot.num_tokens > slot_limit) {', 'if (false) {'),
    ('host/decided/decided.cc', 'any number of hits', 'asked.num_external >= 0 && asked.num_hits >= -1 &&', 'asked.num_external >= 0 &&'),
    ('host/decided/decided.cc', 'any flags', '                          (asked.flags & ~std::int32_t{kLoadsFirst}) == 0;', '                          true;'),
    ('host/decided/decided.cc', 'hits for a row that is held', '!in_range || holds_hits || ', '!in_range || '),
    ('host/decided/decided.cc', 'an admission without sense', ' || !makes_sense(config_.block_size, admission)) {', ') {'),
    ('host/decided/decided.cc', 'a slot is not marked', '    slot.mark = 1;\n', ''),
    ('host/decided/decided.cc', 'running entries beyond the room', 'if (batch_.size() + words > decider_->room().batch_words) return false;\n    if (fills', 'if (fills'),
    ('host/decided/decided.cc', 'keys that were never made', 'if (fills != 0) table_.extend_hashes(slot, work.publish_to);', ''),
    ('host/decided/decided.cc', 'the key of the block before', 'slot.hashes[i + 1]);\n  }\n  return true', 'slot.hashes[i]);\n  }\n  return true'),
    ('host/decided/decided.cc', 'admissions beyond the room', 'if (batch_.size() + words > decider_->room().batch_words) return false;\n    if (full', 'if (full'),
    ('host/decided/decided.cc', 'keys of blocks that are published', 'slot.hashes + 1 + known', 'slot.hashes + 1'),
    ('host/decided/decided.cc', 'a free row twice', 'next_row = row == kNone ? kNone : row + 1;', 'next_row = row;'),
    ('host/decided/decided.cc', 'a poll for nothing', 'if (!deciding_) throw', 'if (false) throw'),
    ('host/decided/decided.cc', 'an answer that is too short', 'if (answer.size < needed) {', 'if (false) {'),
    ('host/decided/decided.cc', 'the host stays behind', '  follow(*decision);\n', ''),
    ('host/decided/decided.cc', 'a batch that was full is all', 'header.stop == kNotStopped && !asked_.whole;', 'header.stop == kNotStopped && false;'),
    ('host/decided/decided.cc', 'rows that no answer names', 'if (taken != decision->header.num_ids || rows != state_.rows_in_use) {', 'if (false) {'),
    ('host/decided/decided.cc', 'it stays under way', '  set_deciding(false);\n  publish_counts();', '  publish_counts();'),
    ('host/decided/decided.cc', 'old counts', '  publish_counts();\n  publish_common_prefix();', '  publish_common_prefix();'),
    ('host/decided/decided.cc', 'an old common prefix', '  publish_common_prefix();\n', ''),
    ('host/decided/decided.cc', 'any log', 'if (const char* why = refusal(state_, decision.log, header.log_words)) {', 'if (const char* why = nullptr) {'),
    ('host/decided/decided.cc', 'a log that nobody wrote down', '  write_down(decision.log, header.log_words);\n', ''),
    ('host/decided/decided.cc', 'any ids', '                   std::equal(results.ids, results.ids + results.num_ids, decision.ids);', '                   true;'),
    ('host/decided/decided.cc', 'any number of free blocks', 'header.num_free == state_.num_free && ', ''),
    ('host/decided/decided.cc', 'any number of keys', 'header.num_published == state_.num_published &&', 'true &&'),
    ('host/decided/decided.cc', 'any number of rows', 'header.rows_in_use == state_.rows_in_use && ', ''),
    ('host/decided/decided.cc', 'any number of commands', ' && wide(header.num_commands) == state_.num_commands;', ';'),
    ('host/decided/decided.cc', 'any digest', 'wide(header.rolling_digest) != state_.rolling_digest ?', 'false ?'),
    ('host/decided/decided.cc', 'any row will do', '  if (row < config_.pool.num_rows && state_', '  if (true || state_'),
    ('host/decided/decided.cc', 'numRun counts entries with work', 'work_[header.num_run].entry : asked_.to', 'asked_.from + header.num_run : asked_.to'),
    ('host/decided/decided.cc', 'entries stay marked', 'for (const Work& work : work_) table_[work.slot].mark = 0;\n', ''),
    ('host/decided/decided.cc', 'the slot learns nothing', '    set_row(slot, slot.row, num_blocks, work.publish_to);\n', ''),
    ('host/decided/decided.cc', 'the frame learns nothing', '    frame.num_blocks[work.entry] = static_cast<std::int32_t>(num_blocks);\n', ''),
    ('host/decided/decided.cc', 'the frame learns of no new block', '    frame.new_blocks[work.entry] = static_cast<std::int32_t>(work.take);\n', ''),
    ('host/decided/decided.cc', 'any row is answered', 'answer.row == row && computed', 'computed'),
    ('host/decided/decided.cc', 'more computed than there is', 'computed <= slot.num_tokens &&', 'true &&'),
    ('host/decided/decided.cc', 'more to compute than there is', 'answer.num_tokens <= slot.num_tokens - computed &&', 'true &&'),
    ('host/decided/decided.cc', 'blocks that do not add up', 'u64{answer.num_hits} + slot.num_blocks + answer.num_new == answer.num_blocks;', 'true;'),
    ('host/decided/decided.cc', 'hits of another prefix', 'if ((block.flags & kPublished) && block.key == slot.hashes[i + 1]) continue;', 'continue;'),
    ('host/decided/decided.cc', 'the row stays free', '  if (opens) free_rows_.take(row);\n', ''),
    ('host/decided/decided.cc', 'what loads first is published', 'config_.caching && !(admission.flags & kLoadsFirst)', 'config_.caching'),
    ('host/core.cc', 'run and admit although the device decides', 'if (!decider_) [[likely]] return;', 'return;'),
    ('host/core.cc', 'changes beside a decision', '  if (deciding_) throw', '  if (false) throw'),
    ('host/core.cc', 'who waits for a poisoned core waits for ever', '  set_deciding(false);\n', ''),
    ('host/step/pending.cc', 'pending operations beside a decision', '  if (deciding_) return;\n', ''),
    ('host/gather/gathered.cc', 'a gather beside a decision', '  begin_change();\n', ''),
]
DECIDED_RACES_MUTANTS = [
    ('host/decided/decider.cc', 'a decision is read without acquire', 'load(std::memory_order_acquire)', 'load(std::memory_order_relaxed)'),
]
DECIDE_KERNEL_MUTANTS = [
    ('cuda/kernels/decide.cu', 'the slot is not fetched', '  fetch(home->desk.batch, mapped_batch, words);\n', ''),
    ('cuda/kernels/decide.cu', 'the completion without its fault', 'number, home->state.fault, home', 'number, 0, home'),
    ('cuda/kernels/decide.cu', 'the completion without its digest', 'home->state.rolling_digest);', '0);'),
    ('cuda/kernels/decide.cu', 'no room for a log', 'desk.log, desk.max_log}', 'desk.log, 0}'),
    ('cuda/kernels/decide.cu', 'no room for ids', 'home->ids, home->state.config.num_blocks,', 'home->ids, 1,'),
    ('cuda/kernels/decide.cu', 'no completion', 'if (team.rank() == 0) complete', 'if (false) complete'),
    ('cuda/kernels/decide.cu', 'the completion comes first', '  decide(team, home->state, batch, words, workspace, desk.decision);\n  if (team.rank() == 0) complete(desk.completion, number, home->state.fault, home->state.rolling_digest);',
     '  if (team.rank() == 0) complete(desk.completion, number, home->state.fault, home->state.rolling_digest);\n  decide(team, home->state, batch, words, workspace, desk.decision);'),
]

DIGEST_MUTANTS = [
    ('core/audit/digest.h', 'the queue from its start in every part', 'live_before);\n  const u64 stride', '0);\n  const u64 stride'),
    ('core/audit/digest.h', 'every part has all blocks', 'u64{part} * team.size() + team.rank(); id', 'team.rank(); id'),
    ('core/audit/digest.h', 'every part has all rows', 'u32 row = part; row', 'u32 row = 0; row'),
    ('core/audit/digest.h', 'parts of the queue overlap', 'state.tail - state.head) * part / parts',
     'state.tail - state.head) * part / (parts + 1)'),
]

# Every check of check() and verify() is left out once, and every limit of a configuration.
GENERATED = [
    ('core/audit/check.h', r'if \([^\n]*\) return "[^"]*";', LOG),
    ('core/audit/verify.h', r'if \([^\n]*\) return (?:"[^"]*"|describe\(state\.fault\));', STATE),
    ('core/base/state.h', r'&& c\.\w+ [<>]= \w+', STATE),
    ('core/audit/digest.h', r'hash = mix\(hash, [^\n]*\);', STATE),
    ('core/base/block_hash.h', r'    hash\.add_word\([^\n]*\);', HASH),
    ('core/base/block_hash.h', r'round\(\);', HASH),
    ('host/decided/decided.cc', r'if \([^\n]*\) refuse\([^\n]*\);', DECIDED),
    ('host/core.cc', r'begin_change\(\);', DECIDED),
    ('host/mirror/mirrored.cc', r'begin_change\(\);', DECIDED),
    ('host/step/pending.cc', r'begin_change\(\);', DECIDED),
]
TRANSFER_MUTANTS = [
    ('transfer/completion_ring.cc', 'a full ring gives out one more', 'if (held == capacity_) return 0;', ''),
    ('transfer/completion_ring.cc', 'a slot keeps its number', 'entry.lap = entry.lap + 1 == laps_ ? 0 : entry.lap + 1;', ''),
    ('transfer/completion_ring.cc', 'the last lap is not the last', 'entry.lap + 1 == laps_ ? 0 :', ''),
    ('transfer/completion_ring.cc', 'an old word is not counted', 'std::memory_order_release) != 0) ++num_late_;',
     'std::memory_order_release) != 0) {}'),
    ('transfer/completion_ring.cc', 'posts overwrite what is there',
     'if (address_of(job)->compare_exchange_strong(awaited, word, std::memory_order_release, std::memory_order_relaxed)) {',
     'if (address_of(job)->store(word), awaited) {'),
    ('transfer/completion_ring.cc', 'posts release nothing', 'word, std::memory_order_release, std::memory_order_relaxed',
     'word, std::memory_order_relaxed, std::memory_order_relaxed'),
    ('transfer/completion_ring.cc', 'drains acquire nothing', 'words_[slot].load(std::memory_order_acquire)',
     'words_[slot].load(std::memory_order_relaxed)'),
    ('transfer/completion_ring.cc', 'late posts are not counted', '  num_late_posts_.fetch_add(1, std::memory_order_relaxed);\n'
     '  return false;', '  return false;'),
    ('transfer/completion_ring.cc', "a lane's job is anybody's", 'if (slot.owned) return Posted::kOwned;', ''),
    ('transfer/completion_ring.cc', 'a job that nobody began is late', 'if ((job - 1) / capacity_ >= slot.lap) return '
     'Posted::kUnknown;', ''),
    ('transfer/completion_ring.cc', 'no limit of numbers', 'if (job == 0 || job > laps_ * capacity_) return Posted::kUnknown;', ''),
    ('transfer/completion_ring.cc', 'any word ends a job', 'const bool ours = word >> 32 == entry.job;', 'const bool ours = true;'),
    ('transfer/completion_ring.cc', 'a late word stays', '  words_[slot].compare_exchange_strong(word, pending('
     'slots_[slot].job), std::memory_order_relaxed);', ''),
    ('transfer/completion_ring.cc', 'a pending word ends a job', '|| static_cast<u32>(word) == 0', ''),
    ('transfer/completion_ring.cc', 'an abandoned job is handed out', 'if (entry.abandoned) {', 'if (false) {'),
    ('transfer/completion_ring.cc', 'abandoned jobs stay counted', '      --num_abandoned_;', ''),
    ('transfer/completion_ring.cc', 'abandoned for ever', '  entry.abandoned = false;', ''),
    ('transfer/completion_ring.cc', 'a verdict that there is not', 'known ? verdict : static_cast<u32>(Verdict::kFailed)',
     'verdict'),
    ('transfer/completion_ring.cc', 'a drained word stays', '  words_[slot].exchange(0, std::memory_order_relaxed);\n'
     '  slots_[slot].job = 0;', '  slots_[slot].job = 0;'),
    ('transfer/completion_ring.cc', 'a drained slot keeps its job', '  slots_[slot].job = 0;', ''),
    ('transfer/completion_ring.cc', 'more than there is room for', '&& drained.pairs < max_pairs', ''),
    ('transfer/completion_ring.cc', 'the rest is lost', 'const auto rest = std::copy(active_.begin() + '
     'static_cast<std::ptrdiff_t>(at), active_.end(),', 'const auto rest = std::copy(active_.end(), active_.end(),'),
    ('transfer/completion_ring.cc', 'the first job is not the first slot', 'std::iota(free_.begin(), free_.end(), 0u);', ''),
    ('transfer/lane/copy_plan.cc', 'one arena', 'if (source_ == target_) throw', 'if (false) throw'),
    ('transfer/lane/copy_plan.cc', 'blocks of two sizes', 'if (source_->bytes_per_block() != target_->bytes_per_block()) {',
     'if (false) {'),
    ('transfer/lane/host_lane.cc', 'an end with jobs left', '    drop_if(true);', ''),
    ('transfer/lane/host_lane.cc', 'an end that nobody hears', '  wake_.notify_all();\n  for', '  for'),
    ('transfer/lane/host_lane.cc', 'a full ring is not noticed', 'if (number == 0) {', 'if (false) {'),
    ('transfer/lane/host_lane.cc', 'no step is waited for', 'if (not_before <= settled_) {', 'if (true) {'),
    ('transfer/lane/job_list.h', 'waiting jobs as submitted', 'while (prev && prev->not_before > job.not_before) prev = prev->prev;', ''),
    ('transfer/lane/copy_plan.cc', 'a job without blocks has no piece', '  piece_ends.push_back(static_cast<u32>(runs.size()));\n}',
     '  if (!runs.empty()) piece_ends.push_back(static_cast<u32>(runs.size()));\n}'),
    ('transfer/lane/copy_plan.cc', 'lists of two lengths', 'if (sources.count != targets.count) {', 'if (false) {'),
    ('transfer/completion_ring.cc', 'a closed ring gives out jobs', 'if (closed_) throw', 'if (false) throw'),
    ('transfer/lane/copy_plan.cc', 'a source that is not there', 'if (from >= source_->num_blocks()) refuse_block', 'if (false) '
     'refuse_block'),
    ('transfer/lane/copy_plan.cc', 'a target that is not there', 'if (to >= target_->num_blocks()) refuse_block', 'if (false) '
     'refuse_block'),
    ('transfer/lane/copy_plan.cc', 'a target twice', 'if (marks_[to] == mark_) throw', 'if (false) throw'),
    ('transfer/lane/copy_plan.cc', 'runs that are not consecutive in the source',
     'from == runs.back().source + runs.back().count', 'true'),
    ('transfer/lane/copy_plan.cc', 'runs that are not consecutive in the target',
     'to == runs.back().target + runs.back().count', 'true'),
    ('transfer/lane/copy_plan.cc', 'no runs', 'if (!first &&', 'if (false &&'),
    ('transfer/lane/copy_plan.cc', 'runs over the end of a piece', 'if (!first &&', 'if (!runs.empty() &&'),
    ('transfer/lane/copy_plan.cc', 'one piece a job', '    if (room == 0) {', '    if (false) {'),
    ('transfer/lane/host_lane.cc', 'steps go back', 'settled_ = std::max(settled_, step);', 'settled_ = step;'),
    ('transfer/lane/host_lane.cc', 'a settled job is not woken', 'waiting_.remove(job);\n    make_ready(job);',
     'waiting_.remove(job);\n    ready_.append(job);'),
    ('transfer/lane/host_lane.cc', 'a cancelled job goes on', '  job.cancelled = true;', ''),
    ('transfer/lane/host_lane.cc', 'cancelled while it is copied', '  if (job.active == 0) end(job);', '  end(job);'),
    ('transfer/lane/host_lane.cc', 'a fence leaves waiting jobs', '  while (waiting_.first) drop(*waiting_.first);', ''),
    ('transfer/lane/host_lane.cc', 'a fence waits for nobody', '  while (ready_.first) over_.wait(lock);', ''),
    ('transfer/lane/host_lane.cc', 'a flush waits for nobody', '    while (jobs_.find(static_cast<u32>(jobs.ids[i]))) over_.wait(lock);', ''),
    ('transfer/lane/host_lane.cc', 'a flush of a waiting job', '    if (!job || job->list != &waiting_) continue;', '    continue;'),
    ('transfer/lane/job_pool.h', "another lane's job", 'return job && job->number == number ? job : nullptr;', 'return job;'),
    ('transfer/lane/host_lane.cc', 'a job begins before the one in front is over',
     '  Job* job = ready_.first;\n  return', '  Job* job = ready_.first;\n  if (job && job->next) job = job->next;\n  return'),
    ('transfer/lane/host_lane.cc', 'cancelled jobs begin pieces', 'return job && !job->cancelled &&', 'return job &&'),
    ('transfer/lane/host_lane.cc', 'over with the first piece', 'if (job->active == 0 && job != next_job()) end(*job);',
     'if (job->active == 0) end(*job);'),
    ('transfer/lane/host_lane.cc', 'over while pieces are copied', 'if (job->active == 0 && job != next_job()) end(*job);',
     'if (job != next_job()) end(*job);'),
    ('transfer/lane/host_lane.cc', 'copied under the lock of nobody', '    lock.lock();\n    traffic_', '    traffic_'),
    ('transfer/lane/host_lane.cc', 'every job is whole', 'const bool whole = job.next_piece == job.plan.num_pieces();',
     'const bool whole = true;'),
    ('transfer/lane/host_lane.cc', 'an end that a flush does not hear', '  if (blocked_) over_.notify_one();', ''),
    ('transfer/block_arena.h', 'arrivals of the first block alone', 'i < first + count;', 'i < first + 1;'),
]
GATHER_MUTANTS = [
    (GATHERER, 'host/gather/gathered.cc', 'nothing is drained', '  drain();\n  Gatherer&', '  Gatherer&'),
    (GATHERER, 'host/gather/gathered.cc', 'entries are not checked', '  check_frame(frame, 0, num_entries);\n', ''),
    (GATHERER, 'host/gather/gathered.cc', 'rows are not checked', '  check_gather(frame, num_entries, gatherer.shape().max_tokens);\n', ''),
    (GATHERER, 'host/gather/gathered.cc', 'every step is uniform', 'return scheduled == frame.scheduled[0];', 'return scheduled != 0;'),
    (GATHERER, 'host/gather/gathered.cc', 'logs are not given', '      mirror_->submit();\n', ''),
    (GATHERER, 'host/gather/gathered.cc', 'no log is waited for', 'return mirror_->all_given();', 'return true;'),
    (GATHERER, 'host/gather/gathered.cc', 'tables of another size', '} else if (gatherer_->shape().max_tokens != max_tokens) {',
     '} else if (false) {'),
    (GATHERER, 'host/gather/gatherer.cc', 'the last gather is forgotten', '  head_.last_entries = last_.num_entries;\n', ''),
    (GATHERER, 'host/gather/gatherer.cc', 'the last tokens are forgotten', '  head_.last_tokens = last_.num_tokens;\n', ''),
    (GATHERER, 'host/gather/gatherer.cc', 'the longest row of the last gather', 'std::max({longest_, last_longest_, 1u})',
     'std::max(longest_, 1u)'),
    (GATHERER, 'host/gather/gatherer.cc', 'every row is short', 'longest_ = std::max(longest_, num_blocks);', 'longest_ = 1;'),
    (GATHERER, 'host/gather/gatherer.cc', 'unknown tokens stay', '  std::fill(ids + num_known, ids + scheduled, kNone);\n', ''),
    (GATHERER, 'host/gather/gatherer.cc', 'ids lie behind starts that are not there', 'head_.uniform == 0 ? 3u : 2u} * entries',
     '3u} * entries'),
    (GATHERER, 'host/gather/gatherer.cc', 'slots are not waited for', 'if (carrier == Carrier::kSlot && !slot_is_free()) {', 'if (false) {'),
    (GATHERER, 'host/gather/gatherer.cc', 'one slot for all', '    next_slot_ = (next_slot_ + 1) % limits_.slots;\n', ''),
    (GATHERER, 'host/gather/gatherer.cc', 'slots come back one too early', 'of_slot_[next_slot_] <= done()', 'of_slot_[next_slot_] <= done() + 1'),
    (GATHERER, 'host/gather/gatherer.cc', 'waits are not counted', '  waits_ += 1;\n', ''),
    (GATHERER, 'host/gather/gatherer.cc', 'patience without end', 'if (std::chrono::steady_clock::now() >= deadline) {', 'if (false) {'),
    (GATHERER, 'host/gather/gatherer.cc', 'not behind the stream', '  if (stream) device_.follow(*stream);\n', ''),
    (GATHERER, 'host/gather/gatherer.cc', 'not in front of the stream', '  if (stream) device_.lead(*stream);\n', ''),
    (GATHERER, 'host/device/device_tables.h', 'the small parameter is too large', 'words <= kSmallGatherWords ?', 'words <= kLargeGatherWords ?'),
    (GATHER, 'cuda/kernels/gather.cu', 'complete before all threads are', '  __syncthreads();\n  if (threadIdx.x != 0) return;\n',
     '  if (threadIdx.x != 0) return;\n'),
    (GATHER, 'cuda/kernels/gather.cu', 'the first block completes', '!= gridDim.x - 1) return;', '!= 0) return;'),
    (GATHER, 'cuda/kernels/gather.cu', 'blocks are counted for ever', '  ended.store(0, ::cuda::memory_order_relaxed);\n', ''),
    (GATHER, 'cuda/kernels/gather.cu', 'blocks end without order', 'ended.fetch_add(1, ::cuda::memory_order_acq_rel)',
     'ended.fetch_add(1, ::cuda::memory_order_relaxed)'),
    (GATHER, 'cuda/kernels/gather.cu', 'one half for what rows hold', '(head.number + 1) % 2', 'head.number % 2'),
    (GATHER, 'cuda/kernels/gather.cu', 'what rows hold is not left', '      if (segment == 0 && lane == 0) after[entry] = now;\n', ''),
    (GATHER, 'cuda/kernels/gather.cu', 'what no gather left is read', 'if (entry < head.last_entries) old = before[entry];', 'old = before[entry];'),
    (GATHER, 'cuda/kernels/gather.cu', 'another residency is the same', 'u64{row} << 32 | site.rows[row].generation', 'u64{row} << 32'),
    (GATHER, 'cuda/kernels/gather.cu', 'another row is the same', 'u64{row} << 32 | site.rows[row].generation', 'u64{site.rows[row].generation}'),
    (GATHER, 'cuda/kernels/gather.cu', 'rows are copied from their first new block on', 'old.width < now.width ? old.width : now.width;',
     'now.width;'),
    (GATHER, 'cuda/kernels/gather.cu', 'old blocks stay behind a shorter row', 'old.width > now.width ? old.width : now.width;', 'now.width;'),
    (GATHER, 'cuda/kernels/gather.cu', 'old blocks are padding', 'i < now.width ?', 'i < old.width ?'),
    (GATHER, 'cuda/kernels/gather.cu', 'entries of the last gather stay',
     'head.num_entries > head.last_entries ? head.num_entries : head.last_entries;\n  const u32 lane', 'head.num_entries;\n  const u32 lane'),
    (GATHER, 'cuda/kernels/gather.cu', 'counts of the last gather stay',
     'head.num_entries > head.last_entries ? head.num_entries : head.last_entries;\n  const u32 last', 'head.num_entries;\n  const u32 last'),
    (GATHER, 'cuda/kernels/gather.cu', 'tokens of the last gather stay',
     'head.num_tokens > head.last_tokens ? head.num_tokens : head.last_tokens;', 'head.num_tokens;'),
    (GATHER, 'cuda/kernels/gather.cu', 'query starts are not padded', 'head.num_tokens == head.last_tokens ? used : site.max_entries',
     'used'),
    (GATHER, 'cuda/kernels/gather.cu', 'the word behind the entries', 'entry <= last; entry +=', 'entry < last; entry +='),
    (GATHER, 'cuda/kernels/gather.cu', 'a token belongs to the entry before', 'starts[middle] <= token', 'starts[middle] < token'),
    (GATHER, 'cuda/kernels/gather.cu', 'positions begin at none computed', 'message.computed[entry] + (token - message.start(entry))',
     '(token - message.start(entry))'),
    (GATHER, 'cuda/kernels/gather.cu', 'blocks without their offset', ' + position % site.block_size;', ';'),
    (GATHER, 'cuda/kernels/gather.cu', 'the first piece is fetched', 'fetch(to + first, mapped + first,', 'fetch(to + first, mapped,'),
    (GATHER, 'cuda/kernels/gather.h', 'too few blocks for what was there', 'most(head.num_tokens, head.last_tokens)', 'head.num_tokens'),
    (GATHER, 'cuda/kernels/gather.h', 'no bound of blocks', 'blocks < kMaxGatherBlocks ? static_cast<u32>(blocks) : kMaxGatherBlocks',
     'static_cast<u32>(blocks)'),
    (TABLES, 'cuda/device/device_tables.cc', 'no padding at first', '  pad();\n}', '}'),
    (TABLES, 'cuda/device/device_tables.cc', 'padding of zeros', 'memory_.base(), 0xff,', 'memory_.base(), 0,'),
    (TABLES, 'cuda/device/device_tables.cc', 'memory for one slot', 'num_slots * slot_words_ * 4', 'slot_words_ * 4'),
    (TABLES, 'cuda/device/device_tables.cc', 'the parameters are exchanged', 'carrier == Carrier::kSmall ?', 'carrier != Carrier::kSmall ?'),
    (TABLES, 'cuda/device/device_tables.cc', 'a piece is not fetched', '(count + kFetchWords - 1) / kFetchWords', '1'),
    (TABLES, 'host/gather/gatherer.cc', 'not behind the forward pass', '  if (stream) device_.follow(*stream);\n', ''),
    (TABLES, 'host/gather/gatherer.cc', 'not in front of the forward pass', '  if (stream) device_.lead(*stream);\n', ''),
]
SYNC_FILES = ['core/blocks/free_queue.h', 'core/blocks/block_pool.h', 'core/blocks/prefix_index.h', 'core/blocks/row_table.h', 'core/blocks/apply.h', 'core/decide/draft.h', 'core/decide/admit.h', 'core/decide/decide.h']
DECIDE_FILES = ['core/decide/batch.h', 'core/decide/draft.h', 'core/decide/admit.h', 'core/decide/decide.h']


# (tests, file, what is broken, text, its replacement)
REFERENCE_MUTANTS = [
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'a slot below the pool', 'slot < site.block_size || ', ''),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'a slot behind the pool', ' || slot >= std::int64_t{site.num_blocks} * site.block_size', ''),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'orders that are none', 'if (i >= *num_orders) return;', 'if (i >= 150) return;'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'the mapping is not asked', 'order.mapping != kNone', 'false'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'the slot is not told', '  order.found = slot;\n', ''),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'another row', 'row_of(site, order.row)', 'row_of(site, 0)'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'half an entry', '  target[1] = halves.of[1];\n', ''),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'read behind the end', 'std::int64_t{first} + i < length', 'true'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'read the null block', 'block >= 1 && ', ''),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'read a block that there is not', ' && static_cast<u32>(block) < site.num_blocks', ''),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'read to the beginning', 'u64{stretch.at} * site.block_size', '0'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'read from the beginning', 'row_of(site, stretch.row) + stretch.from', 'row_of(site, stretch.row)'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'the first position of a stretch', 'stretch.from * site.block_size', '0'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'what was not filled is adopted', 'if (adoption.filled)', 'if (true)'),
    (REFERENCE_KERNELS, 'cuda/reference/reference.cu', 'another block is adopted', 'u64{adoption.block} * block_size', 'u64{blockIdx.x} * block_size'),
    (DEVICE_REFERENCE, 'cuda/reference/staged_memory.h', 'what was read before stays', '    read_.clear();\n', ''),
    (DEVICE_REFERENCE, 'cuda/reference/staged_memory.h', 'orders of the step before', '    num_orders_ = 0;\n', ''),
    (DEVICE_REFERENCE, 'cuda/reference/cuda_reference.cc', 'a step is over before it begins', '  step.done.store(false, std::memory_order_relaxed);\n', ''),
    (DEVICE_REFERENCE, 'cuda/reference/cuda_reference.cc', 'more steps than there is room for', 'if (submitted_ - taken_ == config_.pipeline_depth) {', 'if (false) {'),
    (DEVICE_REFERENCE, 'cuda/reference/cuda_reference.cc', 'every window begins with the first stretch', ' + window.first_stretch;', ';'),
    (DEVICE_REFERENCE, 'cuda/reference/cuda_reference.cc', 'plans are not checked', '  model_.check(step.layout(), {step.known.data(), known.size});\n', ''),
    (DEVICE_REFERENCE, 'cuda/reference/cuda_reference.cc', 'nothing is adopted on the GPU', '      launch(reference_kernels().adopt', '      if (false) launch(reference_kernels().adopt'),
    (DEVICE_REFERENCE_RACES, 'cuda/reference/cuda_reference.cc', 'a host function without the lock', '    const std::lock_guard lock(step.reference.mutex_);\n', ''),
    (DEVICE_REFERENCE, 'cuda/reference/cuda_reference.cc', 'the block table is not copied', '  copy(to.block_table', '  if (false) copy(to.block_table'),
]
# What the lanes of a GPU are made of; all of them are seen by cuda_lane_test.
CUDA_LANE_MUTANTS = [
    ('cuda/lane/cuda_lane.cc', 'memory that CUDA does not know', 'if (arena->place() != Place::kHost) continue;',
     'continue;'),
    ('cuda/lane/cuda_lane.cc', 'no GPU at all', 'if (!from && !to) throw', 'if (false) throw'),
    ('cuda/lane/cuda_lane.cc', 'two GPUs', 'if (from && to && source.device() != target.device()) {', 'if (false) {'),
    ('cuda/lane/cuda_lane.cc', 'an end that waits for nobody', '  drop_ungiven();\n  wait_until([&] { return done_ == given_; });\n}\n\nu32',
     '  drop_ungiven();\n}\n\nu32'),
    ('cuda/lane/cuda_lane.cc', 'an end with jobs that wait', '  ring_->leave(*this);\n  drop_waiting();\n',
     '  ring_->leave(*this);\n'),
    ('cuda/lane/cuda_lane.cc', 'an end with pieces not given', '  drop_waiting();\n  drop_ungiven();\n  wait_until([&] { return done_ == given_; });\n}\n\nu32',
     '  drop_waiting();\n  wait_until([&] { return done_ == given_; });\n}\n\nu32'),
    ('cuda/lane/cuda_lane.cc', 'a full ring is not noticed', 'if (job.number == 0) {', 'if (false) {'),
    ('cuda/lane/cuda_lane.cc', 'no step is waited for', 'if (not_before <= std::max(settled_, gpu_->steps.last())) {',
     'if (true) {'),
    ('cuda/lane/cuda_lane.cc', 'a recorded step is not known', 'if (not_before <= std::max(settled_, gpu_->steps.last())) {',
     'if (not_before <= settled_) {'),
    ('cuda/lane/cuda_lane.cc', 'steps go back', 'settled_ = std::max(settled_, step);', 'settled_ = step;'),
    ('cuda/lane/cuda_lane.cc', 'a step is recorded twice', '  if (step <= std::max(settled_, gpu_->steps.last())) return;\n',
     ''),
    ('cuda/lane/cuda_lane.cc', 'a recorded step wakes nobody', '  stop_waiting(step);\n}\n\n/// For', '}\n\n/// For'),
    ('cuda/lane/cuda_lane.cc', 'jobs of later steps are woken', 'waiting_.first && waiting_.first->not_before <= step',
     'waiting_.first'),
    ('cuda/lane/cuda_lane.cc', 'a woken job is not given', '  if (!giving_) giving_ = &job;\n',
     '  if (ready_.first == &job) giving_ = &job;\n'),
    ('cuda/lane/cuda_lane.cc', 'no window', 'if (bytes >= window_bytes_ && given_ != done_) return;', ''),
    ('cuda/lane/cuda_lane.cc', 'more pieces than there are marks', 'giving_ && given_ - done_ < kMaxFlying', 'giving_'),
    ('cuda/lane/cuda_lane.cc', 'the job behind is not given', 'if (giving_ == &job && !job.wants_more()) giving_ = job.next;',
     'if (giving_ == &job && !job.wants_more()) giving_ = nullptr;'),
    ('cuda/lane/cuda_lane.cc', 'recorded steps are not waited for', 'if (behind) gpu.steps.wait',
     'if (false) gpu.steps.wait'),
    ('cuda/lane/cuda_lane.cc', 'sources are read at once behind a step', 'copy(job.plan.runs.data() + first, count, behind);',
     'copy(job.plan.runs.data() + first, count, false);'),
    ('cuda/lane/cuda_lane.cc', 'a piece that failed counts as whole', '      whole = false;\n', ''),
    ('cuda/lane/cuda_lane.cc', 'a failed job goes on as if it had not', '  job.failed = !whole;\n', ''),
    ('cuda/lane/cuda_lane.cc', 'the mark before last', 'gpu.timeline.mark(given_ + 1,', 'gpu.timeline.mark(given_,'),
    ('cuda/lane/cuda_lane.cc', 'the mark comes first', '      if (behind) gpu.steps.wait',
     '      gpu.timeline.mark(given_ + 1, gpu.stream.get());\n      if (behind) gpu.steps.wait'),
    ('cuda/lane/cuda_lane.cc', 'a mark that fails is nothing', '    lose(error.message, true);\n    return;\n  }\n  u64 blocks',
     '  }\n  u64 blocks'),
    ('cuda/lane/cuda_lane.cc', 'blocks in flight are not counted', '  blocks_flying_ += blocks;\n', ''),
    ('cuda/lane/cuda_lane.cc', 'blocks in flight stay', '  blocks_flying_ -= flying.blocks;\n', ''),
    ('cuda/lane/cuda_lane.cc', 'arrivals of what failed', '  if (flying.whole) {', '  {'),
    ('cuda/lane/cuda_lane.cc', 'no arrivals', 'target.arrived(job.plan.runs[i].target, job.plan.runs[i].count);', ';'),
    ('cuda/lane/cuda_lane.cc', 'arrivals when a piece is given', '  flying_[++given_ % kMaxFlying] =',
     '  for (u32 i = first; i < first + count; ++i) gpu.pairs.target().arrived(job.plan.runs[i].target, job.plan.runs[i].count);\n  flying_[++given_ % kMaxFlying] ='),
    ('cuda/lane/cuda_lane.cc', 'arrivals of the first piece', 'i = job.plan.first_run(flying.piece); i <', 'i = 0; i <'),
    ('cuda/lane/cuda_lane.cc', 'all that was given is noted', 'note(gpu_->timeline.done());\n    if (done_ == before',
     'note(given_);\n    if (done_ == before'),
    ('cuda/lane/cuda_lane.cc', 'over with the first piece', 'if (job.flying == 0 && !job.wants_more()) end(job);',
     'if (!job.wants_more()) end(job);'),
    ('cuda/lane/cuda_lane.cc', 'over before the last piece is given', 'if (job.flying == 0 && !job.wants_more()) end(job);',
     'if (job.flying == 0) end(job);'),
    ('cuda/lane/cuda_lane.cc', 'nobody asks whether the device is lost', 'if (done_ == before && Clock::now() >= next_check_) check_stream();',
     ''),
    ('cuda/lane/cuda_lane.cc', 'a GPU that is silent is waited for', '  if (done_ != given_) throw Error{kCuda, "the GPU has done its copies and its word of that did not come"};\n',
     ''),
    ('cuda/lane/cuda_lane.cc', 'nothing is fed when pieces end', '    return;\n  }\n  feed();\n}\n\nvoid CudaLane::note(',
     '    return;\n  }\n}\n\nvoid CudaLane::note('),
    ('cuda/lane/cuda_lane.cc', 'a cancelled job goes on', '  job.cancelled = true;\n', ''),
    ('cuda/lane/cuda_lane.cc', 'a cancelled job stays in front', '  if (giving_ == &job) giving_ = job.next;\n  if (job.flying == 0) end(job);',
     '  if (job.flying == 0) end(job);'),
    ('cuda/lane/cuda_lane.cc', 'cancelled while it is copied', '  if (job.flying == 0) end(job);\n}\n\nvoid CudaLane::drop_waiting',
     '  end(job);\n}\n\nvoid CudaLane::drop_waiting'),
    ('cuda/lane/cuda_lane.cc', 'a flush of a job that waits', '    if (!job || job->list != &waiting_) continue;',
     '    continue;'),
    ('cuda/lane/cuda_lane.cc', 'a flush waits for nobody', '    wait_until([&] { return !jobs_.find(static_cast<u32>(jobs.ids[i])); });\n',
     ''),
    ('cuda/lane/cuda_lane.cc', 'a fence leaves jobs that wait', 'void CudaLane::fence() {\n  drop_waiting();\n',
     'void CudaLane::fence() {\n'),
    ('cuda/lane/cuda_lane.cc', 'a fence waits for nobody', 'void CudaLane::fence() {\n  drop_waiting();\n  drop_ungiven();\n  wait_until([&] { return done_ == given_; });\n',
     'void CudaLane::fence() {\n  drop_waiting();\n  drop_ungiven();\n'),
    ('cuda/lane/cuda_lane.cc', 'every job is whole', 'const bool whole = job.next_piece == job.plan.num_pieces();',
     'const bool whole = true;'),
    ('cuda/lane/cuda_lane.cc', 'no job fails', 'job.failed ? Verdict::kFailed : whole', 'whole'),
    ('cuda/lane/cuda_lane.cc', 'a job is used again as it was', '  job.cancelled = job.failed = false;\n', ''),
    ('cuda/lane/cuda_lane.cc', 'patience without end', '    } else if (Clock::now() >= deadline) {\n      lose("no',
     '    } else if (false) {\n      lose("no'),
    ('cuda/lane/cuda_lane.cc', 'memory is given back beside what hangs', '      stop_freeing();\n', ''),
    ('cuda/lane/cuda_lane.cc', 'a lost lane leaves jobs that wait', '{&ready_, &waiting_}', '{&ready_}'),
    ('cuda/copies/copier.cc', 'the kernel copies odd bytes', '  if (!aligned && (', '  if (false && ('),
    ('cuda/copies/copier.cc', 'no cut', 'if (bytes < cut) add_pairs(runs[i]);', 'if (false) add_pairs(runs[i]);'),
    ('cuda/copies/copier.cc', 'a cut that counts itself', 'if (bytes < cut) add_pairs', 'if (bytes <= cut) add_pairs'),
    ('cuda/copies/copier.cc', 'a cut of blocks', 'const u64 bytes = runs[i].count * sides_.bytes_per_block;\n    if (bytes < cut)',
     'const u64 bytes = runs[i].count * sides_.bytes_per_block;\n    if (sides_.bytes_per_block < cut)'),
    ('cuda/copies/copier.cc', 'pairs of the piece before', '  letter_.count = 0;\n', ''),
    ('cuda/copies/copier.cc', 'copies of the piece before', '  letter_.count = 0;\n  targets_.clear();\n  sources_.clear();\n  sizes_.clear();\n',
     '  letter_.count = 0;\n'),
    ('cuda/copies/copier.cc', 'one block of a run', 'letter_.pairs[letter_.count++] = {run.source + i, run.target + i};',
     'letter_.pairs[letter_.count++] = {run.source, run.target + i};'),
    ('cuda/copies/copier.cc', 'read at any time behind an event', 'Direction::kToDevice && !behind_event',
     'Direction::kToDevice'),
    ('cuda/copies/copier.cc', 'too few tiles', '(quads + kThreads * kCopiesAtOnce - 1) / (kThreads', 'quads / (kThreads'),
    ('cuda/copies/copier.cc', 'the small letter for all', 'letter_.count <= kSmallPairs ?', 'true ?'),
    ('cuda/copies/copier.cc', 'a batch that fails is nothing', '  require(start_batch(any_time ? cudaMemcpySrcAccessOrderAny : cudaMemcpySrcAccessOrderStream), "cudaMemcpyBatchAsync");',
     '  static_cast<void>(start_batch(any_time ? cudaMemcpySrcAccessOrderAny : cudaMemcpySrcAccessOrderStream));'),
    ('cuda/copies/copier.cc', 'the trial of batches writes what is there', 'sources_.push_back(up ? sides_.target : const_cast<u8*>(sides_.source));',
     'sources_.push_back(host.base());\n    targets_.back() = up ? sides_.target : const_cast<u8*>(sides_.source);'),
    ('cuda/lane/timeline.cc', 'stores where they are not supported', 'result == CUDA_SUCCESS && can ? write', 'true ? write'),
    ('cuda/lane/timeline.cc', 'events are not forced', '  if (mode != CompletionMode::kEvent) write_', '  write_'),
    ('cuda/lane/timeline.cc', 'stores are not forced', '  if (mode == CompletionMode::kWriteValue) throw', '  if (false) throw'),
    ('cuda/lane/timeline.cc', 'a store that fails is nothing', 'if (result != CUDA_SUCCESS) {', 'if (false) {'),
    ('cuda/lane/timeline.cc', 'one event for all marks', 'events_[number % events_.size()]', 'events_[0]'),
    ('cuda/lane/timeline.cc', 'nothing is marked', '  marked_ = number;\n', ''),
    ('cuda/lane/timeline.cc', 'the event of the mark before', 'events_[(done_ + 1) % events_.size()]', 'events_[done_ % events_.size()]'),
    ('cuda/lane/timeline.cc', 'an event of a lost GPU is done', '    require(status, "what was copied on the GPU");\n', ''),
    ('cuda/lane/recorded_steps.h', 'a step without its number', '    entry.step = step;\n', ''),
    ('cuda/lane/recorded_steps.h', 'the last step is not known', '    last_ = step;\n', ''),
    ('cuda/lane/recorded_steps.h', 'one event for all steps', '    ++count_;\n', ''),
    ('cuda/lane/recorded_steps.h', 'a step that fails is recorded', '    require(cudaEventRecord(entry.event.get(), stream), "cudaEventRecord");\n    entry.step = step;',
     '    entry.step = step;\n    last_ = step;\n    require(cudaEventRecord(entry.event.get(), stream), "cudaEventRecord");'),
    ('cuda/lane/recorded_steps.h', 'the event of the step before', 'entries_[at % kKept].step < step) ++at;',
     'entries_[(at + 1) % kKept].step < step) ++at;'),
    ('cuda/lane/recorded_steps.h', 'nobody waits', '    require(cudaStreamWaitEvent(stream, entry.event.get(), 0), "cudaStreamWaitEvent");\n', ''),
    ('cuda/lane/recorded_steps.h', 'all steps count as waited for', '    waited_ = entry.step;', '    waited_ = last_;'),
    ('cuda/copies/calibrate.cc', 'a kernel that never wins', '  if (at_small >= 1) return 0;\n', ''),
    ('cuda/copies/calibrate.cc', 'a kernel that always wins', '  if (at_large < 1) return kMostBytes;\n', ''),
    ('cuda/copies/calibrate.cc', 'another line', 'std::log(1 / at_small)', 'std::log(at_small)'),
    ('cuda/copies/calibrate.cc', 'too little memory to measure is an error', '    if (std::string(error.code) != kNoMemory) throw;', '    throw;'),
    ('cuda/kernels/copy.cu', 'the tail of the last tile', 'end - tile < kTile ? static_cast<u32>(end - tile) : kTile', 'kTile'),
    ('cuda/kernels/copy.cu', 'a part of a tile is left out', 'if (at >= room) continue;', 'if (at + 1 >= room) continue;'),
]


def path_of(root, name):
    return os.path.join(root, name)


def read(name):
    with open(path_of(NATIVE, name), encoding='utf-8') as file:
        return file.read()


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def replaced(file, what, old, new):
    text = read(file)
    if text.count(old) < 1:
        sys.exit(f'{file}, "{what}": the text to replace is gone: {old!r}')
    return f'{file}: {what}', file, text.replace(old, new, 1)


def all_mutants():
    """Yields (name, file, mutated text, tests)."""
    decided = [(CUDA_LANE_MUTANTS, CUDA_LANES), (DECIDED_MUTANTS, DECIDED), (DECIDED_RACES_MUTANTS, DECIDED_RACES), (DECIDE_KERNEL_MUTANTS, DECIDE_KERNELS)]
    for mutants, tests in decided:
        for file, what, old, new in mutants:
            yield replaced(file, what, old, new) + (tests,)
    for file, what, old, new in MUTANTS + MIRROR_MUTANTS + KERNEL_MUTANTS + DIGEST_MUTANTS + TRANSFER_MUTANTS:
        tests = {'transfer': MIRROR, 'host': MIRROR, 'cuda': KERNELS}.get(file.split('/')[0], FAST)
        if file in ('host/mirror/mirrored.cc', 'host/core.h', 'host/core.cc'):
            tests = MIRROR[::-1]
        if file in DECIDE_FILES:
            tests = DECIDE
        if file in TRANSFER_FILES:
            tests = TRANSFER
        if (file, what, old, new) in DIGEST_MUTANTS:
            tests = MIRROR
        yield replaced(file, what, old, new) + (tests,)
    for tests, file, what, old, new in GATHER_MUTANTS + REFERENCE_MUTANTS:
        yield replaced(file, what, old, new) + (tests,)
    for file, pattern, tests in GENERATED:
        text = read(file)
        for match in re.finditer(pattern, text):
            name = f'{file}:{line_of(text, match.start())}: without {match.group().strip()}'
            nothing = '' if match.group().startswith('&') else ';'
            yield name, file, text[:match.start()] + nothing + text[match.end():], tests
    for file in SYNC_FILES:
        text = read(file)
        for match in re.finditer(r'team\.sync\(\);', text):
            name = f'{file}:{line_of(text, match.start())}: without its sync'
            tests = DECIDE if file in DECIDE_FILES else FAST
            yield name, file, text[:match.start()] + ';' + text[match.end():], tests


def verdict(mutant):
    """The test that is red, 'SURVIVED', or what is wrong with the mutant."""
    name, file, text, tests = mutant
    with tempfile.TemporaryDirectory(prefix='blockstep-mutant-') as root:
        for room in ('core', 'base', 'transfer', 'host', 'cuda', 'include', 'reference'):
            shutil.copytree(os.path.join(NATIVE, room), os.path.join(root, room))
        shutil.copytree(HERE, os.path.join(root, 'test'))
        with open(path_of(root, file), 'w', encoding='utf-8') as out:
            out.write(text)
        for test, flags, arguments in tests:
            binary = os.path.join(root, os.path.basename(test))
            source = os.path.join(root, 'test', test + '.cc')
            sources = [source] + [os.path.join(root, flag) for flag in flags if flag.endswith('.cc')]
            options = [flag for flag in flags if not flag.endswith('.cc')]
            built = subprocess.run(COMPILER + options + sources + ['-o', binary], cwd=root, capture_output=True, text=True)
            if built.returncode != 0:
                return name, 'DOES NOT COMPILE\n' + built.stderr[:2000]
            environment = dict(os.environ, TSAN_OPTIONS='halt_on_error=1')
            try:
                ran = subprocess.run([binary] + arguments, capture_output=True, timeout=PATIENCE[test in SLOW], env=environment)
            except subprocess.TimeoutExpired:
                return name, test + ' (does not end)'
            if ran.returncode != 0:
                return name, test + (' (data race)' if b'data race' in ran.stderr else '')
    return name, 'SURVIVED'


def main():
    wanted = sys.argv[1:]
    mutants = [m for m in all_mutants() if not wanted or any(part in m[0] for part in wanted)]
    red = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in pool.map(verdict, mutants):
            red += found.split()[0] not in ('SURVIVED', 'DOES')
            print(f'{name:<72} {found}', flush=True)
    print(f'{red} passed, {len(mutants) - red} failed')
    sys.exit(0 if red == len(mutants) else 1)


if __name__ == '__main__':
    main()
