#include "kernels.h"

#include <cuda/ptx>

#include "../../core/audit/digest.h"
#include "cta_team.cuh"
#include "fetch.cuh"
#include "launch.cuh"
#include "letter.cuh"

namespace blockstep::cuda {
namespace {

// One thread block applies a log, so no second block needs registers. Without the 1, the compiler
// spills registers to make room for three blocks.
template <u32 Words, bool kAll>
__global__ void __launch_bounds__(kThreads, 1) apply_value(const __grid_constant__ Letter<Words> letter) {
  alignas(16) __shared__ u32 log[Words];
  let_next_kernel_begin();
  apply_staged<kAll>(letter.site, letter.number, letter.slot, log, letter.log, letter.words);
}

/// Released, because the host overwrites the slot after the completion has arrived.
__global__ void __launch_bounds__(kThreads, 1) apply_slot(Home* home, u32 number, u32 slot, u32 words,
                                                       const u32* mapped_log) {
  let_next_kernel_begin();
  fetch(home->staging, mapped_log, words);
  apply_log<Order::kRelease, true>(home, number, slot, home->staging, words);
}

/// Writes the arrays of the initial state over zeroed memory. The host has written the scalars.
__global__ void __launch_bounds__(kThreads) initialise(Home* home) {
  init_arrays(home->state, blockIdx.x * kThreads + threadIdx.x, gridDim.x * kThreads);
}

/// First half of a digest, by kParts thread blocks: counts the live places in each part of the free
/// queue.
__global__ void __launch_bounds__(kThreads) count_parts(Home* home) {
  __shared__ CtaTeam::Shared shared;
  CtaTeam team(shared);
  const State state = home->state;
  const u32 live = count_live(team, state, queue_part(state, blockIdx.x, kParts),
                              queue_part(state, blockIdx.x + 1, kParts));
  if (team.rank() == 0) home->live[blockIdx.x] = live;
}

/// Second half of a digest, by kParts thread blocks. The last thread block to end writes the sum.
__global__ void __launch_bounds__(kThreads) digest_parts(Home* home, u32 number) {
  __shared__ CtaTeam::Shared shared;
  CtaTeam team(shared);
  const u64 live_before = team.sum(team.rank() < blockIdx.x ? home->live[team.rank()] : 0);
  const State state = home->state;
  const u64 share = digest_part(team, state, blockIdx.x, kParts, live_before);
  if (team.rank() != 0) return;
  ::cuda::atomic_ref<u64, ::cuda::thread_scope_device> sum(home->digest_sum);
  ::cuda::atomic_ref<u32, ::cuda::thread_scope_device> parts(home->digest_parts);
  sum.fetch_add(share, ::cuda::memory_order_relaxed);
  if (parts.fetch_add(1, ::cuda::memory_order_acq_rel) != kParts - 1) return;
  const u64 digest = sum.exchange(0, ::cuda::memory_order_relaxed);
  parts.store(0, ::cuda::memory_order_relaxed);
  complete<Order::kRelaxed>(home->digest, number, 0, digest);
}

/// The self-test (host/device/self_test.h), by one thread. It answers the first question
/// immediately, and each later question when it sees it. It gives up after `patience` nanoseconds.
__global__ void answer_mailbox(Mailbox* mailbox, u64 patience) {
  using Word = ::cuda::atomic_ref<u64, ::cuda::thread_scope_system>;
  Word ask(*reinterpret_cast<u64*>(&mailbox->ask));
  Word answer(*reinterpret_cast<u64*>(&mailbox->answer));
  const auto now = [] { return ::cuda::ptx::get_sreg_globaltimer(); };
  u64 question = ask.load(::cuda::memory_order_acquire);
  answer.store(mailbox_reply(question), ::cuda::memory_order_release);
  for (u32 i = 0; i < kLaterAsks; ++i) {
    const u64 start = now();
    const u64 before = question;
    while (question == before && now() - start < patience) {
      question = ask.load(::cuda::memory_order_acquire);
    }
    answer.store(question == before ? kMailboxGaveUp : mailbox_reply(question), ::cuda::memory_order_release);
    if (question == before) return;
  }
}

}  // namespace

const Kernels& kernels() {
  static const Kernels all{address(&apply_value<kSmallWords, false>), address(&apply_value<kMiddleWords, false>),
                           address(&apply_value<kSmallWords, true>),  address(&apply_value<kMiddleWords, true>),
                           address(&apply_value<kLargeWords, true>),  address(&apply_slot),
                           address(&initialise),                      address(&count_parts),
                           address(&digest_parts),                    address(&answer_mailbox)};
  return all;
}

}  // namespace blockstep::cuda
