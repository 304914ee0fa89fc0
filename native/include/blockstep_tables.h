/*
 * The tables of a step in GPU memory, for other addons and for CUDA and Triton code. Plain C without dependencies.
 *
 *   const uint64_t address = ...;  // `descriptor` of DeviceTables, a BigInt in JavaScript
 *   const struct blockstep_tables *tables = (const struct blockstep_tables *)(uintptr_t)address;
 *   if (!blockstep_tables_usable(tables)) ...
 *   launch(..., (const int32_t *)(uintptr_t)tables->block_table.data, tables->block_table.shape[1], ...);
 *
 * Lifetime. The struct lies in host memory. The arrays that it describes lie on the device. A core
 * has one set of tables. The struct, the addresses and the shapes stay the same until the core is
 * disposed, so a CUDA graph may capture them.
 *
 * Content. Each gather fills all arrays with one plan, entry by entry in the order of the plan, and
 * pads every array to its end. Readers must not write to the arrays. A gather writes only the
 * changes since the last gather, so it does not repair an overwritten element.
 *
 * Order. A gather runs in the core's stream (option `stream`), in the order in which work is queued
 * there. A stream that is passed with the call is ordered with the gather in the same way. Work that
 * reads the tables of a plan must therefore be queued in that stream, between the gather of its plan
 * and the next gather.
 */
#ifndef BLOCKSTEP_TABLES_H
#define BLOCKSTEP_TABLES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when the meaning or place of a field changes. Appended fields only make `bytes` larger. */
#define BLOCKSTEP_TABLES_VERSION 1u

/* Values of `dtype`: signed integers, named by the size of an element in bytes. */
#define BLOCKSTEP_INT32 4u
#define BLOCKSTEP_INT64 8u

/* A dense, row-major array in device memory. It begins at a multiple of 256 bytes. */
struct blockstep_array {
  uint64_t data;     /* address on the device */
  uint32_t dtype;    /* BLOCKSTEP_INT32 or BLOCKSTEP_INT64 */
  uint32_t ndim;     /* 1 or 2 */
  uint64_t shape[2]; /* elements of each dimension; shape[1] is 1 where ndim is 1 */
};

/* Maximum number of KV cache groups. */
#define BLOCKSTEP_MAX_GROUPS 8

/* The tables of one KV cache group: layers of a model that share a block table (option `kvGroups`). */
struct blockstep_group {
  /* Like slot_mapping below. In a group of states (Mamba `align`), -1 also if the place of a token is empty. */
  struct blockstep_array slot_mapping;
  /* Like block_table below. 0 also in an empty place, for example before a sliding window. */
  struct blockstep_array block_table;
  uint32_t block_size; /* tokens per block of this group */
  uint32_t reserved;
};

struct blockstep_tables {
  uint32_t version;    /* BLOCKSTEP_TABLES_VERSION of the core that filled this struct */
  uint32_t bytes;      /* sizeof(struct blockstep_tables) in that core */
  uint32_t device;     /* CUDA ordinal of the GPU */
  uint32_t block_size; /* tokens per KV block; with groups, tokens per block of the first group */

  /* [max_tokens] int64: KV slot of each scheduled token, block * block_size + offset. Padding -1. */
  struct blockstep_array slot_mapping;
  /* [max_tokens] int32: id of each scheduled token, -1 if the host does not know it yet. Padding -1. */
  struct blockstep_array input_ids;
  /* [max_entries + 1] int32: index of the first token of each entry. Padding: the number of tokens in the plan. */
  struct blockstep_array query_start;
  /* [max_entries] int32: computed plus scheduled tokens of each entry. Padding 0. */
  struct blockstep_array seq_lens;
  /* [max_entries] int32: tokens of each entry whose KV was computed before this step. Padding 0. */
  struct blockstep_array num_computed_tokens;
  /* [max_entries][max_blocks_per_row] int32: block ids of each entry, in order. Padding 0, the null block. */
  struct blockstep_array block_table;

  /*
 * Appended: KV cache groups. slot_mapping and block_table above belong to the first group, and
 * groups[0] repeats them. All other arrays are the same for all groups.
 */
  uint32_t num_groups; /* 1 .. BLOCKSTEP_MAX_GROUPS; 1 also without `kvGroups` */
  uint32_t reserved;
  struct blockstep_group groups[BLOCKSTEP_MAX_GROUPS]; /* the first num_groups are filled, the others are zero */
};

/* Whether code compiled with this header can read the struct: same version, and at least its fields. */
static inline int blockstep_tables_usable(const struct blockstep_tables *tables) {
  return tables != 0 && tables->version == BLOCKSTEP_TABLES_VERSION && tables->bytes >= sizeof(struct blockstep_tables);
}

#ifdef __cplusplus
}
#endif

#endif
