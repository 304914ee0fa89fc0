/*
 * The tables of a step in the memory of a GPU, as other addons, CUDA and Triton code see them. Plain C, no dependency.
 *
 *   const uint64_t address = ...;  // `descriptor` of DeviceTables, a BigInt in JavaScript
 *   const struct blockstep_tables *tables = (const struct blockstep_tables *)(uintptr_t)address;
 *   if (!blockstep_tables_usable(tables)) ...
 *   launch(..., (const int32_t *)(uintptr_t)tables->block_table.data, tables->block_table.shape[1], ...);
 *
 * Lifetime. The struct lies in host memory; the arrays that it describes lie on the device. A core has one set of
 * tables. The struct, the addresses and the shapes stay the same until the core is disposed, so a CUDA graph may
 * capture them.
 *
 * Content. Each gather fills all arrays with one plan, entry by entry in the order of the plan, and pads every array to
 * its end. Readers must not write to the arrays: a gather writes only what changed since the last gather, so it does
 * not repair anything that a reader overwrote.
 *
 * Order. A gather runs in the core's stream (option `stream`): after all work that was queued there before the gather,
 * and before all work that is queued there later. A stream that is passed with the call is ordered with the gather in
 * the same way. So work that reads the tables of a plan must be queued, in that stream, between the gather of its plan
 * and the next gather.
 */
#ifndef BLOCKSTEP_TABLES_H
#define BLOCKSTEP_TABLES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a field changes its meaning or place. Appended fields leave the version alone and make `bytes` larger. */
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

struct blockstep_tables {
  uint32_t version;    /* BLOCKSTEP_TABLES_VERSION of the core that filled this struct */
  uint32_t bytes;      /* sizeof(struct blockstep_tables) in that core */
  uint32_t device;     /* CUDA ordinal of the GPU */
  uint32_t block_size; /* tokens per KV block */

  /* [max_tokens] int64: KV slot of each scheduled token, block * block_size + offset. Padding -1. */
  struct blockstep_array slot_mapping;
  /* [max_tokens] int32: id of each scheduled token; -1 where the host does not know the token yet. Padding -1. */
  struct blockstep_array input_ids;
  /* [max_entries + 1] int32: index of the first token of each entry. Padding: the number of tokens in the plan. */
  struct blockstep_array query_start;
  /* [max_entries] int32: computed plus scheduled tokens of each entry. Padding 0. */
  struct blockstep_array seq_lens;
  /* [max_entries] int32: tokens of each entry whose KV was computed before this step. Padding 0. */
  struct blockstep_array num_computed_tokens;
  /* [max_entries][max_blocks_per_row] int32: block ids of each entry, in order. Padding 0, the null block. */
  struct blockstep_array block_table;
};

/* Whether code that was compiled with this header can read the struct: same version, and at least its fields. */
static inline int blockstep_tables_usable(const struct blockstep_tables *tables) {
  return tables != 0 && tables->version == BLOCKSTEP_TABLES_VERSION && tables->bytes >= sizeof(struct blockstep_tables);
}

#ifdef __cplusplus
}
#endif

#endif
