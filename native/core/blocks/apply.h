// apply(): applies a log to a state. Only apply() and decide() (which writes its log itself) change
// a state. The same log gives the same state on every back end.
#pragma once

#include "../base/command.h"
#include "row_table.h"

namespace blockstep {

/// The commands that apply() supports. kCommon: only the commands of most logs, in code of half the
/// length. Other commands are then malformed.
enum class Ops { kAll, kCommon };

BLOCKSTEP_HD constexpr bool is_common(Op op) {
  return op == Op::kOpen || op == Op::kExtend || op == Op::kPublish || op == Op::kRelease;
}

/// Whether a log of whole commands has only common commands.
BLOCKSTEP_HD inline bool is_common(const u32* log, u32 words) {
  BLOCKSTEP_ROLLED
  for (u32 at = 0; at < words; at += 1 + payload_words(log[at])) {
    if (!is_common(op_of(log[at]))) return false;
  }
  return true;
}

/// Applies one command, whose payload is at `words`. Ends synchronised. Returns its fault, the same
/// for every member.
template <Ops kOps = Ops::kAll, Team T>
BLOCKSTEP_HD inline u32 apply_one(T& team, State& state, u32 head, const u32* words, const Results& results,
                                  u32& num_ids) {
  const u32 count = count_of(head);
  switch (op_of(head)) {
    case Op::kOpen: return open(team, state, words[0], words + 1, count);
    case Op::kExtend: return extend(team, state, words, count, results, num_ids);
    case Op::kPublish: return publish(team, state, words, count);
    case Op::kRelease: return release(team, state, words, count);
    default: break;
  }
  if constexpr (kOps == Ops::kCommon) return kBadCommand;
  switch (op_of(head)) {
    case Op::kPin: return pin(team, state, words, count);
    case Op::kUnpin: return unpin(team, state, words, count);
    case Op::kEvict: return evict(team, state, words, count);
    case Op::kReset: return reset(team, state);
    case Op::kDrop: return drop(team, state, words, count);
    case Op::kPad: return pad(team, state, words, count);
    case Op::kMove: return move(team, state, words, count);
    default: return kBadCommand;
  }
}

/// Counts a command, applied or failed, and adds the resulting counts to the rolling digest. While
/// a log is applied, the rolling_digest of a member's copy holds only the member's share of a sum.
/// fold_digest() adds the shares.
template <Team T>
BLOCKSTEP_HD inline void note_command(T& team, State& state) {
  if (team.rank() == 0) {
    const u64 counts = state.num_free | u64{state.num_published} << 32;
    const u64 rest = state.evictions << 32 ^ u64{state.rows_in_use} << 8 ^ state.fault;
    state.rolling_digest += mix(mix(~state.num_commands, counts), rest);
  }
  state.num_commands += 1;
}

/// Applies the commands of `log` in order, up to the first fault. `state` is the member's copy.
template <Ops kOps = Ops::kAll, Team T>
BLOCKSTEP_HD inline void apply_log(T& team, State& state, const u32* log, u32 words, const Results& results,
                                   u32& num_ids) {
  BLOCKSTEP_ROLLED
  for (u32 at = 0; at < words && state.fault == kNoFault;) {
    const u32 head = log[at];
    const u32 payload = payload_words(head);
    const bool whole = payload < words - at;
    state.fault = whole ? apply_one<kOps>(team, state, head, log + at + 1, results, num_ids) : u32{kBadCommand};
    at += payload + 1;  // past the end if the command was cut off, which ends the loop
    note_command(team, state);
  }
}

/// Copies the scalars for one member, with an empty share of the rolling digest.
BLOCKSTEP_HD inline State copy_to_member(const State& shared) {
  State state = shared;
  state.rolling_digest = 0;
  return state;
}

/// Sums the members' shares of the rolling digest. Afterwards the copy of rank 0 may become the
/// shared state. Synchronises.
template <Team T>
BLOCKSTEP_HD inline void fold_digest(T& team, const State& shared, State& state) {
  state.rolling_digest = team.sum(state.rolling_digest);
  if (team.rank() == 0) state.rolling_digest += shared.rolling_digest;
}

/// Applies the commands of `log`, `words` words, in order. Every member of the team calls apply()
/// with the same arguments. `shared` and `results` may be read when it returns.
///
/// The log is trusted: indices are in range, the rows of an Extend differ, and the hits of an Open
/// differ. A log from outside must pass check() first. A broken promise (see Fault) stops the log
/// and poisons the state. The state stays readable, and memory is never accessed out of bounds.
/// Later calls apply nothing and report the same fault.
template <Ops kOps = Ops::kAll, Team T>
BLOCKSTEP_HD inline void apply(T& team, State& shared, const u32* log, u32 words, Results& results) {
  State state = copy_to_member(shared);
  u32 num_ids = 0;
  apply_log<kOps>(team, state, log, words, results, num_ids);
  fold_digest(team, shared, state);
  if (team.rank() == 0) {
    results.num_ids = num_ids;
    results.evictions = static_cast<u32>(state.evictions - shared.evictions);
    results.fault = state.fault;
    shared = state;
  }
  team.sync();
}

}  // namespace blockstep
