// The allowed combinations of KV cache groups, and of groups with other options.
import { badArg } from '../../base/checks.js';

/** The properties of a group that this check needs. */
interface Group {
  readonly type: string;
  readonly mode: 'none' | 'align' | 'all' | null;
  readonly blockSize: number;
  readonly eagle: boolean;
}

/** The other options that this check needs. */
interface Context {
  readonly blockSize: number;
  readonly longPrefillTokenThreshold: number;
  readonly enableChunkedPrefill: boolean;
  readonly numSpeculativeTokens: number;
  readonly speculativeMethod: string;
  readonly pipelineDepth: number;
  readonly retention: string | number;
  readonly deviations: { readonly keepDraftWindows: boolean };
}

/** Refuses combinations of groups that vLLM refuses at its start, or accepts and crashes on. */
export function checkTogether(groups: readonly Group[], alignment: number, context: Context): void {
  const modes = new Set(groups.flatMap(({ mode }) => mode ?? []));
  if (modes.size > 1)
    throw badArg('kvGroups', [...modes].join(', '), 'one mode for all groups of type mamba');
  for (const [i, { type, blockSize, eagle }] of groups.entries()) {
    if (type !== 'chunked') continue;
    if (blockSize !== alignment) {
      const why = `${alignment}, the least common multiple of all block sizes, in a group of type chunked`;
      throw badArg(`kvGroups[${i}].blockSize`, blockSize, why);
    }
    if (eagle)
      throw badArg('speculativeMethod', context.speculativeMethod, 'not eagle with a group of type chunked');
  }
  const { retention } = context;
  if (typeof retention === 'number' && retention % alignment !== 0)
    throw badArg('retention', retention, `0, or a multiple of ${alignment}, that of all block sizes`);
  if (modes.size > 0) checkDraftStates(groups, context);
  if (!modes.has('align')) return;
  const { blockSize, longPrefillTokenThreshold, enableChunkedPrefill } = context;
  if (longPrefillTokenThreshold > 0 && longPrefillTokenThreshold < blockSize) {
    const why = `0, or at least blockSize (${blockSize}) with Mamba in mode align`;
    throw badArg('longPrefillTokenThreshold', longPrefillTokenThreshold, why);
  }
  if (!enableChunkedPrefill) throw badArg('enableChunkedPrefill', false, 'true with Mamba in mode align');
}

/**
 * Refuses drafts whose rejection leaves no state to continue from. A plan counts drafts in flight
 * as accepted. A place that it drops for this reason may hold the state after the last accepted
 * token.
 */
function checkDraftStates(
  groups: readonly Group[],
  { numSpeculativeTokens, pipelineDepth, deviations }: Context,
): void {
  if (numSpeculativeTokens === 0 || !deviations.keepDraftWindows) return;
  if (pipelineDepth > 2)
    throw badArg('pipelineDepth', pipelineDepth, '1 or 2 with drafts and a group of type mamba');
  for (const [i, { mode, blockSize }] of groups.entries()) {
    if (mode !== 'align' || numSpeculativeTokens < blockSize) continue;
    const why = `less than kvGroups[${i}].blockSize (${blockSize}) with Mamba in mode align`;
    throw badArg('numSpeculativeTokens', numSpeculativeTokens, why);
  }
}
