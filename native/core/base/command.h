// The log that apply() reads, and its results. A log holds facts, in order, as flat u32 words. The
// same log therefore drives the host, the GPU, the fuzzer and the replay of an incident.
//
// A command is one head word, op | count << 8, and its payload:
//
//   kOpen     row, id x count            the free row comes into use, with these cached blocks
//                                        at its front; the null block may be among them, for an
//                                        empty place
//   kExtend   (row, n) x count           each row gets n >= 1 blocks from the head of the free
//                                        queue; the rows differ
//   kPublish  (row, index, key) x count  lookups of the key can find block `index` of the row; a
//                                        key is 4 words
//   kRelease  row x count                the rows become free and drop their blocks, each row its
//                                        last block first
//   kPin      id x count                 each block gets one pin, which is a reference
//   kUnpin    id x count                 each block loses one pin; blocks without references are
//                                        queued in list order
//   kEvict    id x count                 these blocks lose their key; they stay in their place
//   kReset    (nothing)                  every block loses its key; every block must be free
//   kDrop     (row, from, n) x count     n places of the row from `from` on drop their blocks, the
//                                        last place first, and then hold the null block
//   kPad      (row, n) x count           each row gets n >= 1 places at its end with the null block
//   kMove     (row, from, to) x count    the block in place `from` moves to place `to` of the row,
//                                        which was empty
//
// The words of a key run from low to high. The null block appears as an id only in kOpen. The last
// three commands are for rows of KV cache groups in which requests need only some of their blocks.
#pragma once

#include "fault.h"

namespace blockstep {

/// Version of the format above. A file that holds logs has the version in its header. A log itself
/// does not contain it.
constexpr u32 kLogVersion = 1;

enum class Op : u32 { kOpen = 1, kExtend, kPublish, kRelease, kPin, kUnpin, kEvict, kReset, kDrop, kPad, kMove };

constexpr u32 kMaxCount = (1u << 24) - 1;
constexpr u32 kPublishWords = 6;

BLOCKSTEP_HD constexpr u32 head_word(Op op, u32 count) { return static_cast<u32>(op) | count << 8; }
BLOCKSTEP_HD constexpr Op op_of(u32 head) { return static_cast<Op>(head & 0xffu); }
BLOCKSTEP_HD constexpr u32 count_of(u32 head) { return head >> 8; }

/// Words of the command after its head word; kNone for an unknown op. Never overflows: 6 *
/// kMaxCount < 2^27.
BLOCKSTEP_HD constexpr u32 payload_words(u32 head) {
  const u32 count = count_of(head);
  switch (op_of(head)) {
    case Op::kOpen: return count + 1;
    case Op::kExtend: return count * 2;
    case Op::kPublish: return count * kPublishWords;
    case Op::kRelease:
    case Op::kPin:
    case Op::kUnpin:
    case Op::kEvict: return count;
    case Op::kReset: return count == 0 ? 0 : kNone;
    case Op::kDrop:
    case Op::kMove: return count * 3;
    case Op::kPad: return count * 2;
  }
  return kNone;
}

/// The key at `words` of a publish command.
BLOCKSTEP_HD inline Key key_at(const u32* words) {
  return {words[0] | u64{words[1]} << 32, words[2] | u64{words[3]} << 32};
}

/// Writes a key as the four words that key_at() reads.
BLOCKSTEP_HD inline void put_key(u32* words, const Key& key) {
  words[0] = static_cast<u32>(key.lo);
  words[1] = static_cast<u32>(key.lo >> 32);
  words[2] = static_cast<u32>(key.hi);
  words[3] = static_cast<u32>(key.hi >> 32);
}

/// The results of one apply(). The caller provides `ids` and `capacity`. apply() writes the other
/// fields.
struct Results {
  u32* ids;       // blocks taken by the Extend commands, concatenated in order
  u32 capacity;   // ids that fit into `ids`
  u32 num_ids;
  u32 evictions;  // keys dropped by Extend and Evict in this log
  u32 fault;      // Fault of the command that stopped the log; all earlier commands were applied
};

}  // namespace blockstep
