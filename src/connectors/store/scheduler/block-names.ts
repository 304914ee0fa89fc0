// Keys of a store: the name of a block's meaning.
import { createHash } from 'node:crypto';
import { badArg, isObject } from '../../../base/checks.js';
import { checkInteger } from '../../../base/errors.js';
import { checkNames, knownNames } from '../../../base/known-names.js';
import type { KvView } from '../../../scheduler/connector/kv-view.js';
import { SEAL_VERSION } from '../stores/sealed-value.js';

/** The meaning of a block's bytes. Engines share blocks only if all fields are equal. */
export interface BlockFormat {
  /** The model and its weights, for instance name and revision. Other weights need another name. */
  model: string;
  /** The memory layout of a block, in the executor's terms. */
  layout: string;
  /** Type of the numbers, for instance `bf16`. */
  dtype: string;
  /** Size of a block on one rank, in bytes, as in its KV arena. */
  bytesPerBlock: number;
}

const FORMAT = knownNames<BlockFormat>('the format of stored blocks', {
  model: true,
  layout: true,
  dtype: true,
  bytesPerBlock: true,
});
/** Longest name in a format, in UTF-16 units. */
const MAX_TEXT = 200;

/** Checks a format. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkFormat(format: unknown): BlockFormat {
  if (!isObject(format)) throw badArg('format', format, 'an object with model, layout, dtype, bytesPerBlock');
  checkNames(format, FORMAT);
  const { model, layout, dtype, bytesPerBlock } = format as unknown as BlockFormat;
  for (const [name, text] of Object.entries({ model, layout, dtype })) {
    if (typeof text === 'string' && text.length > 0 && text.length <= MAX_TEXT) continue;
    throw badArg(`format.${name}`, text, `a string of 1 to ${MAX_TEXT} characters`);
  }
  checkInteger('format.bytesPerBlock', bytesPerBlock, 1, 2 ** 31 - 1);
  return { model, layout, dtype, bytesPerBlock };
}

/**
 * Returns the common prefix of an engine's keys. It identifies the meaning of the blocks. It
 * includes model, layout, dtype, bytes and tokens of a block, hash seed, ranks, KV cache groups,
 * and the version of this format. Engines that differ in any of these never share. The prefix is a
 * readable word followed by a hash.
 * @param epoch empty, or a name that hides blocks from before a reset
 * @throws ERR_BLOCKSTEP_BAD_ARG if the scheduler generated its own hash seed
 */
export function spaceOf(format: BlockFormat, view: KvView, numRanks: number, epoch = ''): string {
  const { blockSize, hashSpace, numGroups, layout: groups } = view;
  if (hashSpace === null) {
    throw badArg(
      'hashSeed',
      undefined,
      'given to an engine with a store: other engines must find its blocks',
    );
  }
  const { model, layout, dtype, bytesPerBlock } = format;
  const facts = { model, layout, dtype, bytesPerBlock, blockSize, hashSpace, numRanks, numGroups, epoch };
  // Blocks that one group of full attention stored before other groups existed are still found.
  const named = groups === '' ? facts : { ...facts, groups };
  const hash = createHash('sha256')
    .update(JSON.stringify({ version: SEAL_VERSION, ...named }))
    .digest('hex');
  const word = model.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 24);
  return `blockstep:${SEAL_VERSION}:${word}:${hash.slice(0, 32)}`;
}

/**
 * Returns the key of one rank's part of a block.
 * @param hash of the content, from `BlockKeys`; it identifies the group too
 */
export function blockKey(space: string, group: number, rank: number, hash: bigint): string {
  return `${space}:${group}:${rank}:${hash.toString(16)}`;
}
