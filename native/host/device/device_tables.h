// DeviceTables: the tables of a step on a device, and the message that the host sends for a gather.
//
// The device already has the block lists of the rows, in its own State. The message therefore only
// names the rows and their tokens. It travels like a log (Carrier). A short message is a parameter
// of the launch in one of two sizes. A long message lies in a slot of pinned memory, which the host
// reuses after the gather's completion.
#pragma once

#include "../../include/blockstep_tables.h"
#include "device.h"
#include "../tables/tables.h"

namespace blockstep {

/// The head of a gather's message. The words follow it.
struct GatherHead {
  u32 number;        // number of the gather, from 1, also in its completion
  u32 num_entries;
  u32 num_tokens;
  u32 last_entries;  // entries of the previous gather; behind them the tables hold padding
  u32 last_tokens;   // tokens of the previous gather
  u32 uniform;       // tokens per entry if equal for all entries, as in a decode step; otherwise 0
  // Segments of kSegmentBlocks blocks in the longest row of this and the previous gather.
  u32 segments;
};

// The words of a message are up to four arrays. The first three hold the row, the computed tokens
// and the index of the first token of each entry. The third is present only if `uniform` is 0. The
// last array holds the token ids of the step, -1 if unknown. With KV cache groups, the row is the
// request's, which has a row of the state for each group. The indices of first tokens are a prefix
// sum, which costs the host nothing while it writes the message. With them, no thread block of the
// gather waits for another. The message of 256 decodes has 768 words, and travels as the small
// parameter.

/// Number of blocks of a row that one warp writes: a segment.
constexpr u32 kSegmentBlocks = 512;

// Bytes of the parameters before the words: the head, and addresses.
constexpr u32 kGatherParameterHead = 132;
constexpr u32 kSmallGatherWords = (4096 - kGatherParameterHead) / 4;
constexpr u32 kLargeGatherWords = (32764 - kGatherParameterHead) / 4;

constexpr Carrier gather_carrier_of(u64 words) {
  return words <= kSmallGatherWords ? Carrier::kSmall : words <= kLargeGatherWords ? Carrier::kLarge : Carrier::kSlot;
}

/// A log and the message of a gather in one parameter. The log comes first, padded to a multiple of
/// 16 bytes.
constexpr u32 kJointHead = 240;  // bytes of the parameter before both
constexpr u32 kSmallJointWords = (4096 - kJointHead) / 16 * 4;
constexpr u32 kLargeJointWords = (32764 - kJointHead) / 16 * 4;
/// Start of the message behind a log of `log_words` words.
constexpr u32 joint_message_at(u32 log_words) { return (log_words + 3) / 4 * 4; }

/// The maximum number of words of a message of these tables.
constexpr u64 max_gather_words(const TablesShape& shape) { return u64{3} * shape.max_entries + shape.max_tokens; }

static_assert(BLOCKSTEP_MAX_GROUPS == kMaxGroups);

/// The arrays of blockstep_tables, in its order. The arrays of further groups follow: the slot
/// mapping and the block table of the second group, of the third, and so on.
enum class Table : u32 { kSlotMapping, kInputIds, kQueryStart, kSeqLens, kNumComputed, kBlockTable };
constexpr u32 kNumTables = 6;

/// Number of arrays.
inline u32 num_arrays(const blockstep_tables& tables) { return kNumTables + 2 * (tables.num_groups - 1); }

inline const blockstep_array& array_of(const blockstep_tables& tables, Table which) {
  const blockstep_array* const all[kNumTables] = {&tables.slot_mapping, &tables.input_ids,           &tables.query_start,
                                                  &tables.seq_lens,     &tables.num_computed_tokens, &tables.block_table};
  const auto index = static_cast<u32>(which);
  if (index < kNumTables) return *all[index];
  const blockstep_group& group = tables.groups[1 + (index - kNumTables) / 2];
  return (index - kNumTables) % 2 == 0 ? group.slot_mapping : group.block_table;
}
inline u64 bytes_of(const blockstep_array& array) { return array.shape[0] * array.shape[1] * array.dtype; }

/// One set of tables in the memory of a device, initially filled with padding. Gathers run in the
/// order in which they were given, each after the logs that the device was given before it. Only
/// read() waits for the device.
class DeviceTables {
 public:
  virtual ~DeviceTables() = default;

  /// Addresses and shapes of the arrays.
  virtual const blockstep_tables& descriptor() const = 0;
  /// The memory of a slot for a long message: max_gather_words() words.
  virtual u32* slot(u32 index) = 0;
  /// Holds the number of the last completed gather. Gathers end in order, so they share one
  /// completion.
  virtual const Completion& completion() const = 0;

  /// Starts a gather. Its `count` words are copied before the call returns. @throws Error
  virtual void gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) = 0;
  /// Starts a gather whose words are the first `count` words of slot(`slot`). @throws Error
  virtual void gather_slot(const GatherHead& head, u32 slot, u32 count) = 0;

  /// Copies a whole array to `out`, for tests and debugging. Waits for all work given to the
  /// device. @throws Error
  virtual void read(Table which, void* out) = 0;

  virtual u64 device_bytes() const = 0;
  virtual u64 pinned_bytes() const = 0;
};

/// Describes tables at these addresses of a device. `groups` has the addresses of each list of
/// blocks.
inline blockstep_tables describe_tables(const Tables& at, const GroupTables* groups, const TablesShape& shape, u32 device,
                                        u32 block_size) {
  const auto array = [](const auto* data, u64 rows, u64 columns, u32 dimensions) {
    return blockstep_array{reinterpret_cast<std::uintptr_t>(data), sizeof *data, dimensions, {rows, columns}};
  };
  blockstep_tables tables{};
  tables.version = BLOCKSTEP_TABLES_VERSION;
  tables.bytes = sizeof tables;
  tables.device = device;
  tables.block_size = block_size;
  tables.slot_mapping = array(at.slot_mapping, shape.max_tokens, 1, 1);
  tables.input_ids = array(at.input_ids, shape.max_tokens, 1, 1);
  tables.query_start = array(at.query_start, u64{shape.max_entries} + 1, 1, 1);
  tables.seq_lens = array(at.seq_lens, shape.max_entries, 1, 1);
  tables.num_computed_tokens = array(at.num_computed, shape.max_entries, 1, 1);
  tables.block_table = array(at.block_table, shape.max_entries, shape.max_blocks_per_row, 2);
  tables.num_groups = shape.num_lists();
  for (u32 g = 0; g < tables.num_groups; ++g) {
    tables.groups[g].slot_mapping = array(groups[g].slot_mapping, shape.max_tokens, 1, 1);
    tables.groups[g].block_table = array(groups[g].block_table, shape.max_entries, shape.blocks_per_row(g), 2);
    tables.groups[g].block_size = shape.num_groups == 0 ? block_size : shape.groups[g].block_size;
  }
  if (shape.num_groups != 0) tables.block_size = shape.groups[0].block_size;
  return tables;
}

/// Describes tables that lay_out_tables() has placed.
inline blockstep_tables describe_tables(const Tables& at, const TablesShape& shape, u32 device, u32 block_size) {
  GroupTables groups[kMaxGroups];
  for (u32 list = 0; list < shape.num_lists(); ++list) groups[list] = lay_out_group(shape, at, list);
  return describe_tables(at, groups, shape, device, block_size);
}

}  // namespace blockstep
