// The kernels that decide a step on the GPU. One thread block makes one decision. It works in
// device memory, and writes the decision to mapped memory word by word, the completion last.
#include "../../core/decide/decide.h"

#include "cta_team.cuh"
#include "fetch.cuh"
#include "kernels.h"
#include "launch.cuh"
#include "letter.cuh"

namespace blockstep::cuda {
namespace {

__device__ void decide_batch(Home* home, u32 number, const u32* batch, u32 words) {
  __shared__ CtaTeam::Shared shared;
  CtaTeam team(shared);
  const Desk& desk = home->desk;
  const Workspace workspace{home->ids, home->state.config.num_blocks, desk.log, desk.max_log};
  decide(team, home->state, batch, words, workspace, desk.decision);
  if (team.rank() == 0) complete<Order::kRelease>(desk.completion, number, home->state.fault);
}

/// A decision has no slot, so the slot in the letter is not read.
template <u32 Words>
__global__ void __launch_bounds__(kThreads, 1) decide_value(const __grid_constant__ Letter<Words> letter) {
  alignas(16) __shared__ u32 batch[Words];
  const u64 head = queue_head(letter.site);
  stage(batch, letter.log, letter.words);
  foresee_queue(letter.site, head);
  decide_batch(letter.site.home, letter.number, batch, letter.words);
}

__global__ void __launch_bounds__(kThreads, 1) decide_slot(Home* home, u32 number, u32 words, const u32* mapped_batch) {
  fetch(home->desk.batch, mapped_batch, words);
  decide_batch(home, number, home->desk.batch, words);
}

}  // namespace

const DecideKernels& decide_kernels() {
  static const DecideKernels all{address(&decide_value<kSmallWords>), address(&decide_value<kLargeWords>),
                                 address(&decide_slot)};
  return all;
}

}  // namespace blockstep::cuda
