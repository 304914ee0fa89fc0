#include "apply_ways.h"

#include <type_traits>

#include "../../../../core/blocks/apply.h"
#include "../../../../cuda/kernels/letter.cuh"
#include "warp_team.cuh"

namespace blockstep::bench {
namespace {

using cuda::CtaTeam;
using cuda::kThreads;
using cuda::Letter;

/// Words of a log in a parameter of 1 KB.
constexpr u32 kTinyWords = (1024 - kParameterHead) / 4;
static_assert(sizeof(Letter<kTinyWords>) == 1024 && kTinyWords % 4 == 0);

/// Like apply(), but only for the commands of a decode. Other commands are malformed.
template <Team T>
__device__ void apply_growth(T& team, State& shared, const u32* log, u32 words, Results& results) {
  State state = copy_to_member(shared);
  u32 num_ids = 0;
  BLOCKSTEP_ROLLED
  for (u32 at = 0; at < words && state.fault == kNoFault;) {
    const u32 head = log[at];
    const u32 payload = payload_words(head);
    const bool whole = payload < words - at;
    if (whole && op_of(head) == Op::kExtend) {
      state.fault = extend(team, state, log + at + 1, count_of(head), results, num_ids);
    } else if (whole && op_of(head) == Op::kPublish) {
      state.fault = publish(team, state, log + at + 1, count_of(head));
    } else {
      state.fault = kBadCommand;
    }
    at += payload + 1;
    note_command(team, state);
  }
  fold_digest(team, shared, state);
  if (team.rank() == 0) {
    results.fault = state.fault;
    shared = state;
  }
  team.sync();
}

template <class T>
constexpr u32 kMembers = std::is_same_v<T, WarpTeam> ? 32 : kThreads;

/// Like apply_value() in cuda/kernels/kernels.cu.
template <u32 Words, class T, bool kGrowth>
__global__ void __launch_bounds__(kMembers<T>, 1) apply_other(const __grid_constant__ Letter<Words> letter) {
  alignas(16) __shared__ u32 log[Words];
  __shared__ typename T::Shared shared;
  cuda::let_next_kernel_begin();
  const u64 head = cuda::queue_head(letter.site);
  cuda::stage<kMembers<T>>(log, letter.log, letter.words);
  cuda::foresee_queue<kMembers<T>>(letter.site, head);
  cuda::foresee_log<kMembers<T>>(letter.site, log, letter.words);
  cuda::Home* const home = letter.site.home;
  T team(shared);
  Results results{home->ids, home->state.config.num_blocks, 0, 0, 0};
  if constexpr (kGrowth) apply_growth(team, home->state, log, letter.words, results);
  else apply<Ops::kCommon>(team, home->state, log, letter.words, results);
  if (team.rank() != 0) return;
  cuda::complete<cuda::Order::kRelaxed>(home->completions + letter.slot, letter.number, results.fault, home->state.rolling_digest);
}

template <u32 Words, class T, bool kGrowth>
ApplyWay way(const char* name) {
  return {name, cuda::address(&apply_other<Words, T, kGrowth>), kMembers<T>, Words};
}

}  // namespace

const std::vector<ApplyWay>& apply_ways() {
  static const std::vector<ApplyWay> all{
      {"as it is", nullptr, kThreads, kSmallWords},
      way<kTinyWords, CtaTeam, false>("a letter of 1 KB"),
      way<kSmallWords, WarpTeam, false>("one warp"),
      way<kSmallWords, CtaTeam, true>("Extend and Publish alone"),
      way<kTinyWords, WarpTeam, true>("one warp, 1 KB, Extend and Publish alone"),
  };
  return all;
}

}  // namespace blockstep::bench
