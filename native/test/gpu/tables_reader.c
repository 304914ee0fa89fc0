/* How an addon in plain C uses the address from JavaScript. */
#include "tables_reader.h"

int find_tables(uint64_t descriptor, struct blockstep_array arrays[6]) {
  const struct blockstep_tables *tables = (const struct blockstep_tables *)(uintptr_t)descriptor;
  if (!blockstep_tables_usable(tables)) return 0;
  arrays[0] = tables->slot_mapping;
  arrays[1] = tables->input_ids;
  arrays[2] = tables->query_start;
  arrays[3] = tables->seq_lens;
  arrays[4] = tables->num_computed_tokens;
  arrays[5] = tables->block_table;
  return 1;
}
