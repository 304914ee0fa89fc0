// Refuses unsupported options of a model, before it is loaded.
import { badArgument } from '../../../base/errors.js';
import type { ModelCard } from '../../../executors/llama-cpp/gguf/model-card.js';
import { NO_CONTEXT_SHIFT } from '../../../executors/llama-cpp/llama-options.js';
import type { SchedulerOptions } from '../../../scheduler/options/options.js';
import type { ModelFlags } from './model-flags.js';

/** Sequences of llama.cpp's cache. A request needs one, or two with a sliding window. */
const MOST_SEQUENCES = 256;

/**
 * Refuses options that the model's file rules out, because loading may take minutes. The executor
 * checks its options again.
 * @param given scheduler options from the command line
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkForModel(
  { window, stateNumbers, generates, pooling }: ModelCard,
  { variant, gpuLayers, lora, contextShift }: ModelFlags,
  given: Partial<SchedulerOptions>,
): void {
  if (contextShift) throw badArgument('--context-shift', 'true', `absent: ${NO_CONTEXT_SHIFT}`);
  const { maxNumSeqs = 1, numSpeculativeTokens = 0, enablePrefixCaching = false } = given;
  const hasStates = stateNumbers > 0;
  const most = window > 0 && !hasStates ? MOST_SEQUENCES / 2 : MOST_SEQUENCES;
  if (maxNumSeqs > most)
    throw badArgument('--max-num-seqs', String(maxNumSeqs), `at most ${most} with such a model`);
  if (numSpeculativeTokens > 0 && hasStates)
    throw badArgument('--num-speculative-tokens', String(numSpeculativeTokens), `0, ${STATES}`);
  if (enablePrefixCaching && hasStates)
    throw badArgument('--enable-prefix-caching', 'true', `absent, ${STATES}`);
  if (lora !== undefined && (!generates || (pooling ?? 'none') !== 'none'))
    throw badArgument('--lora', Object.keys(lora).join(', '), 'absent with a model that generates no text');
  if (variant === 'cpu' && (gpuLayers ?? 0) > 0)
    throw badArgument('--gpu-layers', String(gpuLayers), 'absent or 0 with --variant cpu');
}

const STATES = 'since the model has states, which cannot go back';
