// Makes the context of llama.cpp: the cache, and memory for computing.
import { BlockstepError, messageOf } from '../../base/errors.js';
import { badModel } from './gguf/bad-model.js';
import { inWords, memoryNeeds } from './gguf/memory-needs.js';
import type { KvOrigin } from './kv/kv-origin.js';
import type { ResolvedLlamaOptions } from './llama-options.js';
import { LlamaModel } from './model/llama-model.js';
import type { NativeContext } from './native/binding.js';
import { endAtExit } from './native/end-at-exit.js';
import { hasGpu } from './native/library.js';

/**
 * Makes the context of an executor.
 * @param batch most tokens of a call
 * @param origin of the blocks that are copied; null: none are
 * @throws by rejection ERR_BLOCKSTEP_BAD_MODEL, ERR_BLOCKSTEP_NO_MEMORY
 */
export async function makeContext(
  options: ResolvedLlamaOptions,
  batch: number,
  origin: KvOrigin | null,
): Promise<NativeContext> {
  const { model, numBlocks, blockSize, numSequences, threads, microBatch } = options;
  const { maxNumSeqs, numSpeculativeTokens } = options;
  const { native, said } = LlamaModel.nativeOf(model);
  const { hasDecoder, hasEncoder, isDiffusion } = said;
  if (!hasDecoder || hasEncoder || isDiffusion || !model.card.generates)
    throw badModel(model.info.file, 'generates no text token by token');
  const isOnGpu = hasGpu(model);
  if (!isOnGpu) checkMemory(options, process.availableMemory());
  try {
    const context = await native.createContext({
      // The null block has no cells.
      cells: (numBlocks - 1) * blockSize,
      batch,
      microBatch: Math.min(microBatch, batch),
      sequences: numSequences,
      outputs: maxNumSeqs * (1 + numSpeculativeTokens),
      threads,
      batchThreads: threads,
      typeK: options.nativeCacheType,
      typeV: options.nativeCacheType,
      flashAttention: options.nativeFlashAttention,
      offloadCache: isOnGpu,
      blockSize: origin === null ? 0 : blockSize,
      origin: origin?.hashes ?? NO_ORIGIN,
    });
    endAtExit(context);
    return context;
  } catch (cause) {
    const message = `llama.cpp could not make a context of ${numBlocks} blocks of ${blockSize} tokens for ${model.info.file}: ${messageOf(cause)}`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message, { cause });
  }
}

const NO_ORIGIN = new BigUint64Array(5);

/**
 * Refuses a pool that does not fit. The system would grant the memory, and kill some process once
 * the memory is used. The weights are in memory already.
 * @throws ERR_BLOCKSTEP_NO_MEMORY, which says how many blocks would fit
 */
function checkMemory(options: ResolvedLlamaOptions, free: number): void {
  const { model, numBlocks, blockSize, maxNumSeqs, maxNumBatchedTokens, cacheType } = options;
  const { perToken, states, work } = memoryNeeds(model.card, { maxNumSeqs, maxNumBatchedTokens, cacheType });
  const cache = (blocks: number): number => (blocks - 1) * blockSize * perToken;
  if (cache(numBlocks) + states + work <= free) return;
  const most = perToken === 0 ? 0 : Math.floor((free - states - work) / (blockSize * perToken)) + 1;
  const fits = most >= 2 ? `${most} blocks would fit` : 'no pool would fit';
  const message = `a pool of ${numBlocks} blocks of ${blockSize} tokens for ${model.info.file} needs ${inWords(cache(numBlocks))} of KV cache and ${inWords(states + work)} to compute with, and ${inWords(free)} are free: ${fits}`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}
