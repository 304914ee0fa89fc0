"""What is broken on purpose in the kernels that apply and decide, and what they share (see ../../mutate.py)."""

# (suite, file, [(what is broken, text, its replacement)])
MUTANTS = [
    ('kernels', 'cuda/kernels/cta_team.cuh', [
        ('one buffer', 'turn_ ^= 1;', ''),
        ('no barrier', '    __syncthreads();\n    Number', '    Number'),
        ('sync does nothing', 'void sync() { __syncthreads(); }', 'void sync() {}'),
        ('a member counts itself', '((1u << lane()) - 1)', '((2u << lane()) - 1)'),
        ('a warp counts itself', 'if (i < warp())', 'if (i <= warp())'),
        ('the other warps do not count', 'if (i < warp())', 'if (false)'),
        ('the first lane adds itself', 'if (lane() >= distance) upto', 'upto'),
        ('the scan stops early', 'distance < 32; distance *= 2', 'distance < 16; distance *= 2'),
        ('the sum starts too low', 'distance = 16; distance', 'distance = 8; distance'),
        ('the scan of the first lane', 'lane() == 31, total', 'lane() == 0, total'),
        ('a sum of 32 bits', 'across_warps<u64>(value', 'across_warps<u64>(static_cast<u32>(value)'),
    ]),
    ('decide-kernels', 'cuda/kernels/decide.cu', [
        ('the slot is not fetched', '  fetch(home->desk.batch, mapped_batch, words);\n', ''),
        ('the completion without its fault', 'number, home->state.fault);', 'number, 0);'),
        ('no room for a log', 'desk.log, desk.max_log}', 'desk.log, 0}'),
        ('no room for ids', 'home->ids, home->state.config.num_blocks,', 'home->ids, 1,'),
        ('no completion', 'if (team.rank() == 0) complete', 'if (false) complete'),
        ('the completion comes first',
         '  decide(team, home->state, batch, words, workspace, desk.decision);\n  if (team.rank() == 0) complete<Order::kRelease>(desk.completion, number, home->state.fault);',
         '  if (team.rank() == 0) complete<Order::kRelease>(desk.completion, number, home->state.fault);\n  decide(team, home->state, batch, words, workspace, desk.decision);'),
    ]),
    ('kernels', 'cuda/kernels/fetch.cuh', [
        ('the fetch is not synchronised', '  __syncthreads();\n}', '}'),
        ('the fetch forgets the end', 'const u32 count = (words + 3) / 4;', 'const u32 count = words / 4;'),
        ('the fetch writes past the end', 'if (at < count) target[at]', 'target[at]'),
    ]),
    ('kernels', 'cuda/kernels/kernels.cu', [
        ('parts count themselves', 'team.rank() < blockIdx.x ?', 'team.rank() <= blockIdx.x ?'),
        ('the sum stays', 'sum.exchange(0, ::cuda::memory_order_relaxed)', 'sum.load(::cuda::memory_order_relaxed)'),
        ('the parts stay', '  parts.store(0, ::cuda::memory_order_relaxed);\n', ''),
        ('the first part answers', '!= kParts - 1) return;', '!= 0) return;'),
        ('the later questions are not awaited', 'question == before && now() - start < patience', 'false'),
        ('only one question is answered', '; i < kLaterAsks; ++i) {', '; i < 1; ++i) {'),
    ]),
    ('kernels', 'cuda/kernels/launch.cuh', [
        ('the completion is not released', 'kOrder == Order::kRelease ?', 'false ?'),
        ('the completion without its fault', 'completion_word(number, fault)', 'completion_word(number, 0)'),
        ('half a digest', 'which < 2; ++which) tell', 'which < 1; ++which) tell'),
        ('the lower half twice', 'half_word(number, digest, which)', 'half_word(number, digest, 0)'),
        ('a half without its number', 'half_word(number, digest, which)', 'half_word(0, digest, which)'),
    ]),
    ('kernels', 'cuda/kernels/letter.cuh', [
        ('another completion', 'home->completions + slot', 'home->completions'),
        ('a log is staged in part', '(count + 3) / 4', 'count / 4'),
        ('the stage is not synchronised', '  __syncthreads();\n}', '}'),
        ('rows that are none are fetched', 'if (index < site.num_rows) prefetch', 'prefetch'),
    ]),
    ('kernels', 'core/blocks/apply.h', [
        ('every log is common', 'if (!is_common(op_of(log[at]))) return false;', ''),
        ('rare commands are dropped', '  if constexpr (kOps == Ops::kCommon) return kBadCommand;', '  return kBadCommand;'),
    ]),
]
