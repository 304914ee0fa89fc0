/* Plain C, like the header that it is made for. */
#ifndef BLOCKSTEP_TABLES_READER_H
#define BLOCKSTEP_TABLES_READER_H

#include "../../include/blockstep_tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arrays in the order of the struct; 0 if they cannot be read. */
int find_tables(uint64_t descriptor, struct blockstep_array arrays[6]);

#ifdef __cplusplus
}
#endif

#endif
