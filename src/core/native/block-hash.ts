/**
 * The function that block hashes are made by, in `native/core/base/block_hash.h`. What stores blocks under their hashes names it in
 * its keys, so that blocks of another function are never found.
 */
export const BLOCK_HASH = 'SipHash-1-3-128';
