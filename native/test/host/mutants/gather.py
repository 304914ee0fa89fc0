"""What is broken on purpose in the gather that a core asks its device for (see ../../mutate.py)."""

# (suite, file, [(what is broken, text, its replacement)])
MUTANTS = [
    ('gatherer', 'host/core.cc', [
        ('nothing is drained', '  pending_.drain();\n  device_gather_', '  device_gather_'),
    ]),
    ('gatherer', 'host/device/device_tables.h', [
        ('the small parameter is too large', 'words <= kSmallGatherWords ?', 'words <= kLargeGatherWords ?'),
    ]),
    ('gatherer', 'host/gather/device_gather.cc', [
        ('entries are not checked', '  check_frame(frame, 0, num_entries, table_);\n', ''),
        ('rows are not checked', 'if (config_.groups.empty()) check_gather(frame, num_entries, gatherer.shape().max_tokens, table_);\n  else', 'if (!config_.groups.empty())'),
        ('every step is uniform', 'return scheduled == frame.scheduled[0];', 'return scheduled != 0;'),
        ('logs are not given', '      mirror->submit();\n', ''),
        ('no log is waited for', 'return mirror->all_given();', 'return true;'),
        ('the longest row of the first group', 'has_groups ? longest_row(slot) : slot.num_blocks', 'slot.num_blocks'),
        ('tables of another size', '} else if (gatherer_->shape().max_tokens != max_tokens) {', '} else if (false) {'),
    ]),
    ('gatherer', 'host/gather/gatherer.cc', [
        ('joined beside another stream', 'if (!stream && join &&', 'if (join &&'),
        ('no room for the message', '(kLargeJointWords - count) / 4 * 4', 'kLargeJointWords'),
        ('a joined gather is not counted', 'launch_joined(join, words)) return note_given();', 'launch_joined(join, words)) return;'),
        ('the last gather is forgotten', '  head_.last_entries = last_.num_entries;\n', ''),
        ('the last tokens are forgotten', '  head_.last_tokens = last_.num_tokens;\n', ''),
        ('the longest row of the last gather', 'std::max({longest_, last_longest_, 1u})', 'std::max(longest_, 1u)'),
        ('every row is short', 'longest_ = std::max(longest_, num_blocks);', 'longest_ = 1;'),
        ('unknown tokens stay', '  std::fill(ids + num_known, ids + scheduled, kNone);\n', ''),
        ('ids lie behind starts that are not there', 'head_.uniform == 0 ? 3u : 2u} * entries', '3u} * entries'),
        ('slots are not waited for', 'if (carrier == Carrier::kSlot && !slot_is_free()) {', 'if (false) {'),
        ('one slot for all', '    next_slot_ = (next_slot_ + 1) % limits_.slots;\n', ''),
        ('slots come back one too early', 'of_slot_[next_slot_] <= done()', 'of_slot_[next_slot_] <= done() + 1'),
        ('waits are not counted', '  waits_ += 1;\n', ''),
        ('patience without end', 'if (std::chrono::steady_clock::now() >= deadline) {', 'if (false) {'),
        ('not behind the stream', '  if (stream) device_.follow(*stream);\n', ''),
        ('not in front of the stream', '  if (stream) device_.lead(*stream);\n', ''),
    ]),
    ('gatherer', 'host/mirror/mirror.cc', [
        ('a second log is held too', 'if (holds && !waited && !stream) return;', 'if (holds && !stream) return;'),
        ('nothing is held', 'if (holds && !waited && !stream) return;', ''),
        ('rare commands are joined', ' && is_common(words_.data() + sent_, words)', ''),
        ('a log that is too long is joined', 'words <= room && ', ''),
        ('the bound of logs is ignored', "&& outstanding() != limits_.max_logs) {", ') {'),
    ]),
    ('gatherer', 'host/gather/host_gather.cc', [
        ('nothing has a slot', 'if (Groups && block == kNullBlock)', 'if (false)'),
    ]),
    ('gatherer', 'host/tables/tables.cc', [
        ('what was let go stays', '    if (empty < kept) row[empty] = 0;\n', '    ;\n'),
        ('what moves stays', '  if (shape.groups[group].moves) kept = std::min(kept, empty);\n', ''),
        ('empty places of another residency', 'u32 empty = lasts ? content.empty : 0;', 'u32 empty = content.empty;'),
        ('slots of the last gather stay', 'list < shape.num_lists(); ++list) {\n      std::int64_t* mapping',
         'list < 1; ++list) {\n      std::int64_t* mapping'),
        ('rows of the last gather stay', 'g < shape.num_groups; ++g) write_group_row(g, e', 'g < 1; ++g) write_group_row(g, e'),
    ]),
    ('tables', 'host/gather/gatherer.cc', [
        ('not behind the forward pass', '  if (stream) device_.follow(*stream);\n', ''),
        ('not in front of the forward pass', '  if (stream) device_.lead(*stream);\n', ''),
    ]),
]
