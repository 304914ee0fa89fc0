#!/usr/bin/env python3
"""Breaks the core on purpose, one place at a time, and expects the tests to notice.

Each mutant is a copy of native/core with one piece of text replaced. The tests below are built against it one after the
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
CORE = os.path.join(HERE, '..', 'core')
HOST = os.path.join(HERE, '..', 'host')
COMPILER = [os.environ.get('CXX', 'g++'), '-std=c++20', '-pthread']
PLAIN = ['-O1']
CHECKED = ['-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all']
RACES = ['-O1', '-g', '-fsanitize=thread']
FAST = [
    ('model_test', PLAIN, ['1500']),
    ('state_test', PLAIN, []),
    ('log_test', PLAIN, ['200']),
    ('index_test', PLAIN, []),
    ('team_test', RACES, ['40']),
]
DECIDE = [
    ('decide_test', PLAIN, ['200']),
    ('decide_test', RACES, ['40', '2', '3', '5']),
    ('decide_test', CHECKED, ['100']),
]
HASH = [('hash_test', ['-O0'], [])]
LOG = [('log_test', ['-O0'], ['50'])]
STATE = [('state_test', ['-O0'], [])]

# (file, what is broken, text, its replacement)
MUTANTS = [
    ('free_queue.h', 'live bits before the first place', 'bits &= ~0u << (from & 31);\n    if (word == last)',
     ';\n    if (word == last)'),
    ('free_queue.h', 'live bits behind the last place', 'bits &= ~0u >> (31 - ((to - 1) & 31));', ';'),
    ('free_queue.h', 'a touched block stays in the queue', 'team.fetch_and(&state.live[block.place >> 5], '
     '~(1u << (block.place & 31)));', ''),
    ('free_queue.h', 'leaving clears bits with a plain write', 'team.fetch_and(&state.live[block.place >> 5], '
     '~(1u << (block.place & 31)));', 'state.live[block.place >> 5] &= ~(1u << (block.place & 31));'),
    ('free_queue.h', 'no upkeep', 'if (dead <= state.config.num_blocks) return;', 'return;'),
    ('free_queue.h', 'upkeep too slow', '4 * count', 'count'),
    ('free_queue.h', 'packed cursor behind the head', 'state.packed > state.head ? state.packed : state.head',
     'state.packed'),
    ('free_queue.h', 'unread cursor behind the head', 'state.unread > packed ? state.unread : packed', 'state.unread'),
    ('free_queue.h', 'upkeep leaves the old place live', 'if (place >= packed) team', 'if (false) team'),
    ('free_queue.h', 'upkeep clears the new place', 'if (place >= packed) team', 'team'),
    ('free_queue.h', 'upkeep never shortens the queue', 'state.tail = packed;', ''),
    ('free_queue.h', 'upkeep never ends', 'state.unread = kIdle;\n  }', '}'),
    ('free_queue.h', 'skip one word too many', 'word += leading;', 'word += leading + 1;'),
    ('free_queue.h', 'skip goes by one word of the team', 'team.count(empty && before == 0, leading);',
     'team.count(empty, leading);'),
    ('free_queue.h', 'skip moves back', 'word << 5 > from ? word << 5 : from', 'word << 5'),
    ('free_queue.h', 'no reference for a taken block', 'block.ref = 1;', ''),
    ('free_queue.h', 'no new generation', 'block.generation += 1;', ''),
    ('free_queue.h', 'reuse keeps the key', 'if (block.flags & kPublished) {', 'if (false) {'),
    ('free_queue.h', 'the head passes the whole window', 'head += passed;', 'head += team.size();'),
    ('free_queue.h', 'the head stays', 'state.head = head;', ''),
    ('block_pool.h', 'reversed order of release', 'list[count - 1 - i]', 'list[i]'),
    ('block_pool.h', 'release without upkeep', '  upkeep(team, state, count);\n  u32 fault = kNoFault;',
     '  u32 fault = kNoFault;'),
    ('block_pool.h', 'unpin without upkeep', '  upkeep(team, state, count);\n  team.sync', '  team.sync'),
    ('block_pool.h', 'release ignores other holders', 'team.count(held == 1, total);\n    if (held == 1)',
     'team.count(held >= 1, total);\n    if (held >= 1)'),
    ('block_pool.h', 'release below zero', 'if (held == 0) fault = kRefUnderflow;', ''),
    ('block_pool.h', 'a hit counts with a plain write', 'if (team.fetch_add(&block.ref, 1) != 0) return 0;',
     'if (block.ref++ != 0) return 0;'),
    ('block_pool.h', 'pins not counted', 'team.fetch_add(&block.pins, 1);', ''),
    ('block_pool.h', 'pins not taken back', 'if (team.fetch_sub(&block.pins, 1) == 0) fault = kRefUnderflow;', ''),
    ('block_pool.h', 'a pinned block stays free', 'state.num_free -= total;', ''),
    ('block_pool.h', 'unpin once too often',
     'if (team.fetch_sub(&block.pins, 1) == 0) fault = kRefUnderflow;', 'team.fetch_sub(&block.pins, 1);'),
    ('block_pool.h', 'unpin finds a stale place', 'team.store(&state.blocks[ids[i]].place, 0);', ';'),
    ('block_pool.h', 'unpin queues at the first occurrence', 'team.fetch_max(&block.place, i + 1);',
     'if (team.load(&block.place) == 0) team.store(&block.place, i + 1);'),
    ('block_pool.h', 'unpin queues every occurrence', 'state.blocks[id].ref == 0 && state.blocks[id].place == i + 1',
     'state.blocks[id].ref == 0'),
    ('block_pool.h', 'unpin queues what is still held', 'state.blocks[id].ref == 0 && state.blocks[id].place == i + 1',
     'state.blocks[id].place == i + 1'),
    ('prefix_index.h', 'the newest twin answers', 'block.stamp < oldest',
     'block.stamp >= (best == kNone ? 0 : oldest)'),
    ('prefix_index.h', 'half a key is enough (low)', 'if (block.key == key', 'if (block.key.lo == key.lo'),
    ('prefix_index.h', 'half a key is enough (high)', 'if (block.key == key', 'if (block.key.hi == key.hi'),
    ('prefix_index.h', 'hits behind a miss', 'if (misses != 0) break;', ''),
    ('prefix_index.h', 'hits behind a miss in a window', 'hit && before == 0', 'hit'),
    ('prefix_index.h', 'publish of a published block', 'fault = lower(fault, kAlreadyPublished);\n      continue;', ''),
    ('prefix_index.h', 'publish past the row', '|| entry[1] >= row.num_blocks', ''),
    ('prefix_index.h', 'publish to a free row', '!row.in_use || entry[1]', 'entry[1]'),
    ('prefix_index.h', 'stamps of one command are equal', 'block.stamp = state.next_stamp + i;',
     'block.stamp = state.next_stamp;'),
    ('prefix_index.h', 'stamps do not go on', 'state.next_stamp += count;', ''),
    ('prefix_index.h', 'published blocks not counted', 'state.num_published += count;', ''),
    ('prefix_index.h', 'dropped blocks not counted', 'state.num_published -= total;', ''),
    ('prefix_index.h', 'evictions not counted', 'state.evictions += total;', ''),
    ('prefix_index.h', 'chains linked with a plain write',
     'block.next = team.exchange(bucket_of(state, block.key), id);',
     'block.next = *bucket_of(state, block.key); *bucket_of(state, block.key) = id;'),
    ('prefix_index.h', 'dropped blocks stay in the chain',
     'if (!(team.load(&state.blocks[id].flags) & kPublished)) continue;', ''),
    ('prefix_index.h', 'a bucket has two unlinkers', 'if (id & kLock) continue;', 'id &= ~kLock;'),
    ('prefix_index.h', 'a bucket stays locked', 'if (flags & kUnlinker) team', 'if (false) team'),
    ('prefix_index.h', 'the chain is not cut', '*link = kNullBlock;', ''),
    ('prefix_index.h', 'transient flags stay', 'if (flags & kDropped) team.fetch_and(&block.flags, kPublished);', ''),
    ('prefix_index.h', 'evict counts repetitions', '& kPublished)) continue;\n    team.fetch_or(flags',
     '& 7)) continue;\n    team.fetch_or(flags'),
    ('prefix_index.h', 'reset while in use',
     'if (state.num_free != state.config.num_blocks - 1) return kBlocksInUse;', ''),
    ('prefix_index.h', 'reset keeps the buckets', 'state.buckets[i] = kNullBlock;', ';'),
    ('prefix_index.h', 'reset keeps the flags', 'state.blocks[id].flags = 0;', ';'),
    ('row_table.h', 'open of a row in use', 'if (row.in_use) fault = kRowInUse;', ''),
    ('row_table.h', 'open too long', 'if (count > state.config.max_blocks_per_row) return kRowTooLong;', ''),
    ('row_table.h', 'hits stay free', 'state.num_free -= total;', ''),
    ('row_table.h', 'open without a vote', 'return agree(team, fault);', 'return fault;'),
    ('row_table.h', 'no new row generation', 'row.generation += 1;', ''),
    ('row_table.h', 'blocks go to the next row', 'state.grants[from + 1].first > index',
     'state.grants[from + 1].first >= index'),
    ('row_table.h', 'blocks go to the row before', '<= index ? low : high', '< index ? low : high'),
    ('row_table.h', 'extend by nothing', 'if (n == 0) found = lower(found, kBadCommand);', ''),
    ('row_table.h', 'extend names a row twice', 'found = lower(found, kRowRepeated);', ';'),
    ('row_table.h', 'extend of a free row', 'if (!row.in_use) found', 'if (false) found'),
    ('row_table.h', 'extend too long', 'if (n > state.config.max_blocks_per_row - row.num_blocks)', 'if (false)'),
    ('row_table.h', 'extend beyond the free blocks',
     'if (wanted > state.num_free) found = lower(found, kNoFreeBlocks);', ''),
    ('row_table.h', 'extend beyond the results', 'if (wanted > results.capacity - num_ids) return kResultsFull;', ''),
    ('row_table.h', 'extend without a vote', 'fault = agree(team, found);', 'fault = found;'),
    ('row_table.h', 'more pairs than rows', 'if (count > state.config.num_rows) return kBadCommand;', ''),
    ('row_table.h', 'grants of one window only', 'wanted += total;', 'wanted = total;'),
    ('row_table.h', 'a claim stays', 'row.claimed = 0;', ''),
    ('row_table.h', 'one block for each row', 'const bool one_each = n == count;', 'const bool one_each = true;'),
    ('row_table.h', 'taken blocks not counted', 'state.num_taken += n;', ''),
    ('row_table.h', 'the ids of one command overwrite the last', 'num_ids += n;', 'num_ids = n;'),
    ('row_table.h', 'dropped blocks not unlinked', 'drop_marked(team, state, ids, n, dropped);', ''),
    ('row_table.h', 'release of a free row', 'if (!row.in_use) return kRowNotInUse;', ''),
    ('row_table.h', 'release without a vote',
     'fault = agree(team, fault);\n    if (fault != kNoFault) return fault;\n    if (team.rank()', 'if (team.rank()'),
    ('row_table.h', 'the row stays in use', 'row.in_use = 0;', ''),
    ('row_table.h', 'the row keeps its blocks', '      row.num_blocks = 0;\n', ''),
    ('apply.h', 'a payload past the end', 'payload < words - at', 'payload <= words - at'),
    ('apply.h', 'a poisoned state goes on', 'at < words && state.fault == kNoFault', 'at < words'),
    ('apply.h', 'the first member digests alone', 'team.sum(state.rolling_digest)',
     'state.rolling_digest; team.sync()'),
    ('apply.h', 'counts not digested', 'state.rolling_digest += mix(mix(', 'state.num_taken += 0 * mix(mix('),
    ('apply.h', 'evictions since ever', 'state.evictions - shared.evictions', 'state.evictions'),
    ('fault.h', 'the fault of whoever is first', 'if (any(team, fault == code)) return code;',
     'return fault ? fault : code;'),
    ('state.h', 'one word of live bits', 'return places < 64 ? 64 : places;', 'return places;'),
    ('state.h', 'a ring of twice the blocks', 'round_to_power(u64{4} * c.num_blocks)',
     'round_to_power(u64{2} * c.num_blocks)'),
    ('batch.h', 'a batch of any length', 'if (count < kWordsOf<BatchHeader>) return false;', ''),
    ('batch.h', 'any version', 'header.version != kBatchVersion || ', ''),
    ('batch.h', 'a batch that is cut off', 'header.words > count || ', ''),
    ('batch.h', 'blocks of no tokens', ' || header.block_size == 0', ''),
    ('batch.h', 'sections past the end', 'if (admissions > header.words) return false;', ''),
    ('draft.h', 'no room for the log', 'if (words < draft.max_log - draft.log_words) return', 'return'),
    ('draft.h', 'room for the payload, not for its head', 'if (words < draft.max_log', 'if (words <= draft.max_log'),
    ('draft.h', 'no head in the log', 'if (team.rank() == 0) words[0] = head;', ''),
    ('draft.h', 'a command is not counted', '  note_command(team, state);\n', ''),
    ('draft.h', 'the next command overwrites the last', 'draft.log_words += 1 + payload_words(head);', ''),
    ('decide.h', 'an entry that needs every free block does not run', '+ mine <= state.num_free, fit', '+ mine < state.num_free, fit'),
    ('decide.h', 'running entries run into an empty pool', 'i < count && wanted - total + before + mine <= state.num_free', 'i < count'),
    ('decide.h', 'each running entry for itself', 'wanted - total + before + mine', 'mine'),
    ('decide.h', 'windows of running entries are counted alone', 'wanted += total;\n    team.count(', 'wanted = total;\n    team.count('),
    ('decide.h', 'an Extend by nothing', 'i < count && entries[i].num_new != 0', 'i < count'),
    ('decide.h', 'pairs of one window only', 'growing += total;', 'growing = total;'),
    ('decide.h', 'an empty Extend', '  if (growing == 0) return;\n', ''),
    ('draft.h', 'a block behind the row', 'return index < row.num_blocks ?', 'return true ?'),
    ('draft.h', 'blocks of one holder are contested', 'return block.ref > 1;', 'return true;'),
    ('draft.h', 'a claim finds a stale place', 'team.store(&block->place, 0);', ''),
    ('draft.h', 'nobody claims', 'contested = true;', ''),
    ('draft.h', 'the last claim wins', 'team.fetch_max(&block->place, count - i)', 'team.fetch_max(&block->place, i + 1)'),
    ('draft.h', 'published again', 'if (block && (block->flags & kPublished)) wants = false;', ''),
    ('draft.h', 'every claim wins', ' && team.load(&block->place) != count - i) wants', ' && false) wants'),
    ('draft.h', 'publications of one window only', 'wanted += total;\n  }\n  if (wanted == 0)', 'wanted = total;\n  }\n  if (wanted == 0)'),
    ('draft.h', 'an empty Publish', '  if (wanted == 0) return;\n', ''),
    ('draft.h', 'half a key', 'word < 4; ++word', 'word < 2; ++word'),
    ('decide.h', 'publications of entries that did not run', 'batch.running[count - 1].publications_end', 'batch.header->num_publications'),
    ('decide.h', 'publications past their section', 'if (publications > batch.header->num_publications) {', 'if (false) {'),
    ('decide.h', 'publications after a fault', 'state.fault == kNoFault && publications != 0', 'publications != 0'),
    ('admit.h', 'a pinned block counts as free', 'mine += state.blocks[ids[i]].ref == 0;', 'mine += 1;'),
    ('admit.h', 'hits are counted by each member', 'team.scan(mine, total);\n  return total;', 'team.scan(mine, total);\n  return mine;'),
    ('admit.h', 'the last hit stays', 'num_hits -= 1;', ''),
    ('admit.h', 'a drop below zero', 'num_hits != 0 && (header.flags & kDropLastHit)', '(header.flags & kDropLastHit)'),
    ('admit.h', 'a lookup for what is computed', 'if (admission.num_computed != 0 || admission.row != kNone) return 0;', 'if (admission.row != kNone) return 0;'),
    ('admit.h', 'the block of the last token hits', '(admission.num_tokens - 1) / header.block_size', 'admission.num_tokens / header.block_size'),
    ('admit.h', 'hits are computed again', 'fresh ? num_hits * header.block_size : admission.num_computed', 'fresh ? 0 : admission.num_computed'),
    ('admit.h', 'no limit of a chunk', 'if (header.prefill_limit != 0) chunk', 'if (false) chunk'),
    ('admit.h', 'a limit of no tokens', 'if (header.prefill_limit != 0) chunk', 'chunk'),
    ('admit.h', 'a chunk beyond the budget', 'if (chunk > budget) {', 'if (false) {'),
    ('admit.h', 'prefills are always chunked', 'if (!(header.flags & kChunkedPrefill)) return kStopBudget;', ''),
    ('admit.h', 'lookahead for what is new', '(fresh ? 0 : header.lookahead)', 'header.lookahead'),
    ('admit.h', 'no lookahead', '(fresh ? 0 : header.lookahead)', '0'),
    ('admit.h', 'room beyond the limit', 'lesser(computed + chunk + (fresh ? 0 : header.lookahead), header.slot_limit)', 'computed + chunk + (fresh ? 0 : header.lookahead)'),
    ('admit.h', 'a held row counts for nothing', 'opens ? num_hits : state.rows[admission.row].num_blocks', 'num_hits'),
    ('admit.h', 'a row shrinks', 'greater(blocks_for(needed), held)', 'blocks_for(needed)'),
    ('admit.h', 'no reserve', 'header.flags & kReserveAll ?', 'false ?'),
    ('admit.h', 'always a reserve', 'header.flags & kReserveAll ?', 'true ?'),
    ('admit.h', 'a reserve below the need', 'greater(blocks_for(admission.num_tokens), total)', 'blocks_for(admission.num_tokens)'),
    ('admit.h', 'free hits count twice', ' - held + hit_free > state.num_free', ' - held > state.num_free'),
    ('admit.h', 'the last free block is never given', 'hit_free > state.num_free) return', 'hit_free >= state.num_free) return'),
    ('admit.h', 'the free blocks are not looked at', 'if (u64{reserve} - held + hit_free > state.num_free) return kStopBlocks;', ''),
    ('admit.h', 'no row needed', 'if (row == kNone) return kStopRows;', ''),
    ('admit.h', 'rows before blocks', '  if (u64{reserve} - held', '  if (opens && free_row == kNone) return kStopRows;\n  if (u64{reserve} - held'),
    ('admit.h', 'the answer has no hits', '  answer.num_hits = num_hits;\n', ''),
    ('admit.h', 'the answer has no row', '  answer.row = row;\n', ''),
    ('admit.h', 'the answer has no tokens', '  answer.num_tokens = chunk;\n', ''),
    ('admit.h', 'the answer has no blocks', '  answer.num_blocks = total;\n', ''),
    ('admit.h', 'the answer has no new blocks', '  answer.num_new = total - held;\n', ''),
    ('admit.h', 'the answer has no ids', '  answer.first_id = draft.num_ids;\n', ''),
    ('admit.h', 'a row is opened that is held', '  if (opens) {\n', '  {\n'),
    ('admit.h', 'an Extend after a fault', 'if (state.fault == kNoFault && answer.num_new != 0)', 'if (answer.num_new != 0)'),
    ('admit.h', 'an admission by no blocks', 'if (state.fault == kNoFault && answer.num_new != 0)', 'if (state.fault == kNoFault)'),
    ('admit.h', 'a Publish after a fault', '  if (state.fault != kNoFault) return;\n  const u32 computed', '  const u32 computed'),
    ('admit.h', 'keys of an opened row begin later', 'opens ? 0 : admission.num_published;', 'admission.num_published + answer.num_hits;'),
    ('admit.h', 'a partial block is published', '(computed + answer.num_tokens) / header.block_size', '(computed + answer.num_tokens + header.block_size - 1) / header.block_size'),
    ('admit.h', 'publications without keys', 'lesser(full, first_key + admission.num_keys)', 'full'),
    ('decide.h', 'admissions without a budget', '    if (budget == 0) return kStopBudget;\n', ''),
    ('decide.h', 'any number of requests', '    if (decision.num_admitted == header.request_budget) return kStopRequests;\n', ''),
    ('decide.h', 'keys past the end', 'left - kWordsOf<Admission> < u64{4} * admission.num_keys ||', ''),
    ('decide.h', 'the words of keys overflow', 'u64{4} * admission.num_keys', '4 * admission.num_keys'),
    ('decide.h', 'an admission past the end', 'left < kWordsOf<Admission> || left', 'left'),
    ('decide.h', 'an admission with nothing to compute', ' ||\n        admission.num_computed >= admission.num_tokens) {', ') {'),
    ('decide.h', 'every admission gets the first free row', 'num_opened += admission.row == kNone;', ''),
    ('decide.h', 'a held row takes a free one too', 'num_opened += admission.row == kNone;', 'num_opened += 1;'),
    ('decide.h', 'rows behind the free ones', 'num_opened < header.num_rows ? batch.rows[num_opened] : kNone', 'batch.rows[num_opened]'),
    ('decide.h', 'the budget does not shrink', 'budget -= answer.num_tokens;', ''),
    ('admit.h', 'what does not fit is granted', 'if (stop != kNotStopped) return stop;', ''),
    ('decide.h', 'admissions go on behind one that does not fit', 'if (stop != kNotStopped) return stop;', ''),
    ('decide.h', 'no answer for one that does not fit', '    decision.num_answers = i + 1;\n    if (stop != kNotStopped) return stop;\n', '    if (stop != kNotStopped) return stop;\n    decision.num_answers = i + 1;\n'),
    ('decide.h', 'a malformed batch', '!read_batch(words, count, batch)) state.fault = kBadCommand;', '(read_batch(words, count, batch), false)) state.fault = kBadCommand;'),
    ('decide.h', 'the facts are not applied', 'apply_log(team, state, batch.facts, batch.header->fact_words, draft.results, draft.num_ids);', ';'),
    ('decide.h', 'a poisoned state decides', 'if (state.fault == kNoFault && !read_batch', 'state.fault = kNoFault; if (!read_batch'),
    ('decide.h', 'running after a fault in the facts', '  if (state.fault == kNoFault) {\n    header.num_run', '  {\n    header.num_run'),
    ('decide.h', 'admissions although a running entry did not fit', 'state.fault == kNoFault && header.stop == kNotStopped', 'state.fault == kNoFault'),
    ('decide.h', 'no reason when a running entry did not fit', 'header.stop = kStopRunning;', ';'),
    ('decide.h', 'a fault with half a decision', '    header = {};\n', ''),
    ('decide.h', 'the rolling digest starts anew', 'fold_digest(team, shared, state);', 'state.rolling_digest = team.sum(state.rolling_digest);'),
    ('decide.h', 'the state is not written back', '    shared = state;\n', ''),
    ('decide.h', 'one member copies', 'for (u32 i = team.rank(); i < count; i += team.size()) to[i] = from[i];', 'for (u32 i = team.rank(); i < count; i += team.size() + 1) to[i] = from[i];'),
]

# Every check of check() and verify() is left out once, and every limit of a configuration.
GENERATED = [
    ('check.h', r'if \([^\n]*\) return "[^"]*";', LOG),
    ('verify.h', r'if \([^\n]*\) return (?:"[^"]*"|describe\(state\.fault\));', STATE),
    ('state.h', r'&& c\.\w+ [<>]= \w+', STATE),
    ('digest.h', r'hash = mix\(hash, [^\n]*\);', STATE),
    ('block_hash.h', r'    hash\.add_word\([^\n]*\);', HASH),
    ('block_hash.h', r'round\(\);', HASH),
]
SYNC_FILES = ['free_queue.h', 'block_pool.h', 'prefix_index.h', 'row_table.h', 'apply.h', 'draft.h', 'admit.h', 'decide.h']
DECIDE_FILES = ['batch.h', 'draft.h', 'admit.h', 'decide.h']


def read(name):
    with open(os.path.join(CORE, name), encoding='utf-8') as file:
        return file.read()


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def all_mutants():
    """Yields (name, file, mutated text, tests)."""
    for file, what, old, new in MUTANTS:
        text = read(file)
        if text.count(old) < 1:
            sys.exit(f'{file}, "{what}": the text to replace is gone: {old!r}')
        yield f'{file}: {what}', file, text.replace(old, new, 1), DECIDE if file in DECIDE_FILES else FAST
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
        shutil.copytree(CORE, os.path.join(root, 'core'))
        shutil.copytree(HOST, os.path.join(root, 'host'))
        shutil.copytree(HERE, os.path.join(root, 'test'))
        with open(os.path.join(root, 'core', file), 'w', encoding='utf-8') as out:
            out.write(text)
        for test, flags, arguments in tests:
            binary = os.path.join(root, test)
            source = os.path.join(root, 'test', test + '.cc')
            built = subprocess.run(COMPILER + flags + [source, '-o', binary], capture_output=True, text=True)
            if built.returncode != 0:
                return name, 'DOES NOT COMPILE\n' + built.stderr[:2000]
            environment = dict(os.environ, TSAN_OPTIONS='halt_on_error=1')
            try:
                ran = subprocess.run([binary] + arguments, capture_output=True, timeout=25, env=environment)
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
