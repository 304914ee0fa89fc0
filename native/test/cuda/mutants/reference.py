"""What is broken on purpose in the reference executor on a GPU (see ../../mutate.py)."""

# (suite, file, [(what is broken, text, its replacement)])
MUTANTS = [
    ('device-reference', 'cuda/reference/cuda_reference.cc', [
        ('a step is over before it begins', '  step.done.store(false, std::memory_order_relaxed);\n', ''),
        ('more steps than there is room for', 'if (submitted_ - taken_ == config_.pipeline_depth) {', 'if (false) {'),
        ('every window begins with the first stretch', ' + window.first_stretch;', ';'),
        ('plans are not checked', '  model_.check(step.layout(), {step.known.data(), known.size});\n', ''),
        ('asked at every poll', 'if (Clock::now() >= next_check_) {', 'if (true) {'),
        ('nothing is adopted on the GPU', '      launch(reference_kernels().adopt',
         '      if (false) launch(reference_kernels().adopt'),
        ('the block table is not copied', '  copy(to.block_table', '  if (false) copy(to.block_table'),
    ]),
    ('device-reference-races', 'cuda/reference/cuda_reference.cc', [
        ('a host function without the lock', '    const std::lock_guard lock(step.reference.mutex_);\n', ''),
    ]),
    ('reference-kernels', 'cuda/reference/reference.cu', [
        ('a slot below the pool', 'slot < site.block_size || ', ''),
        ('a slot behind the pool', ' || slot >= std::int64_t{site.num_blocks} * site.block_size', ''),
        ('orders that are none', 'if (i >= *num_orders) return;', 'if (i >= 150) return;'),
        ('the mapping is not asked', 'order.mapping != kNone', 'false'),
        ('the slot is not told', '  order.found = slot;\n', ''),
        ('another row', 'row_of(site, order.row)', 'row_of(site, 0)'),
        ('half an entry', '  target[1] = halves.of[1];\n', ''),
        ('read behind the end', 'std::int64_t{first} + i < length', 'true'),
        ('read the null block', 'block >= 1 && ', ''),
        ('read a block that there is not', ' && static_cast<u32>(block) < site.num_blocks', ''),
        ('read to the beginning', 'u64{stretch.at} * site.block_size', '0'),
        ('read from the beginning', 'row_of(site, stretch.row) + stretch.from', 'row_of(site, stretch.row)'),
        ('the first position of a stretch', 'stretch.from * site.block_size', '0'),
        ('what was not filled is adopted', 'if (adoption.filled)', 'if (true)'),
        ('another block is adopted', 'u64{adoption.block} * block_size', 'u64{blockIdx.x} * block_size'),
    ]),
    ('device-reference', 'cuda/reference/staged_memory.h', [
        ('what was read before stays', '    read_.clear();\n', ''),
        ('orders of the step before', '    num_orders_ = 0;\n', ''),
    ]),
]
