/*
 * The tables of a step in the memory of a GPU, as other addons, CUDA and Triton code see them. Plain C, no dependency.
 *
 *   const uint64_t address = ...;  // `descriptor` of DeviceTables, a BigInt in JavaScript
 *   const struct blockstep_tables *tables = (const struct blockstep_tables *)(uintptr_t)address;
 *   if (!blockstep_tables_usable(tables)) ...
 *   launch(..., (const int32_t *)(uintptr_t)tables->block_table.data, tables->block_table.shape[1], ...);
 *
 * The struct lies in memory of the host. It and all that it says stay as they are until the core is disposed: there is
 * one set of tables a core, at addresses that a CUDA graph may capture.
 *
 * Content. Each gather fills all arrays with one plan, entry by entry in the order of the plan, and pads them to their
 * end. They are to be read only: a gather writes what is new, and does not repair what somebody else wrote over the rest.
 *
 * Order. A gather runs in the core's stream (option `stream`), behind everything that was queued there before it and in
 * front of what is queued there later; if a stream is passed with the call, the same holds for that one. So whatever
 * reads the tables of a plan must be queued, in that stream, between the gather of its plan and the next gather.
 */
#ifndef BLOCKSTEP_TABLES_H
#define BLOCKSTEP_TABLES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a field changes its meaning or place. What is only appended makes `bytes` larger. */
#define BLOCKSTEP_TABLES_VERSION 1u

/* Elements, signed: their size in bytes. */
#define BLOCKSTEP_INT32 4u
#define BLOCKSTEP_INT64 8u

/* A dense array in device memory, row after row. It begins at a multiple of 256 bytes. */
struct blockstep_array {
  uint64_t data;     /* address on the device */
  uint32_t dtype;    /* BLOCKSTEP_INT32 or BLOCKSTEP_INT64 */
  uint32_t ndim;     /* 1 or 2 */
  uint64_t shape[2]; /* elements of each dimension; shape[1] is 1 where ndim is 1 */
};

struct blockstep_tables {
  uint32_t version;    /* BLOCKSTEP_TABLES_VERSION of whoever filled this */
  uint32_t bytes;      /* sizeof(struct blockstep_tables) there */
  uint32_t device;     /* which GPU, as CUDA counts them */
  uint32_t block_size; /* tokens a block of KV memory has room for */

  /* [max_tokens] int64: where the KV of each token is written, block * block_size + offset. Padding -1. */
  struct blockstep_array slot_mapping;
  /* [max_tokens] int32: the tokens to compute; -1 where the host does not know the token yet. Padding -1. */
  struct blockstep_array input_ids;
  /* [max_entries + 1] int32: first token of each entry; from the number of entries on, the number of tokens. */
  struct blockstep_array query_start;
  /* [max_entries] int32: tokens of each entry that exist when the step is done, computed and scheduled. Padding 0. */
  struct blockstep_array seq_lens;
  /* [max_entries] int32: tokens of each entry whose KV exists before the step. Padding 0. */
  struct blockstep_array num_computed_tokens;
  /* [max_entries][max_blocks_per_row] int32: the blocks of each entry, in order. Padding 0, the null block. */
  struct blockstep_array block_table;
};

/* Can code that was compiled with this header read the struct? */
static inline int blockstep_tables_usable(const struct blockstep_tables *tables) {
  return tables != 0 && tables->version == BLOCKSTEP_TABLES_VERSION && tables->bytes >= sizeof(struct blockstep_tables);
}

#ifdef __cplusplus
}
#endif

#endif
