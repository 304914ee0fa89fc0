// The name of the hash function of blocks.

/**
 * The function of block hashes, in `native/core/base/block_hash.h`. Stores of blocks put its name
 * into their keys, so that they never find blocks of another function.
 */
export const BLOCK_HASH = 'SipHash-1-3-128';
