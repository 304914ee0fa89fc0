import { Engine } from '../engine/engine.js';
import { ReferenceExecutor } from '../executors/reference/reference-executor.js';
import { BLOCK_SIZE, MAX_MODEL_LEN, TEXT_SEED } from './station.js';

/** The request of a client. */
export interface Inquiry {
  readonly prompt: Int32Array;
  /** Tokens of each answer. */
  readonly maxTokens: number;
  /** For a session: the chunks behind the prompt. */
  readonly chunks: readonly Int32Array[];
}

/**
 * The answers of an engine without a connector, with room for all requests. Texts are the same with
 * KV cache groups and without.
 */
export async function expectedTexts(inquiries: readonly Inquiry[]): Promise<Int32Array[]> {
  const sizes = { numBlocks: 4096, blockSize: BLOCK_SIZE, maxNumSeqs: 128, maxModelLen: MAX_MODEL_LEN };
  using engine = new Engine({ ...sizes, executor: new ReferenceExecutor({ ...sizes, seed: TEXT_SEED }) });
  const streams = inquiries.map(({ prompt, maxTokens, chunks }) => {
    const stream = engine.submit({ prompt, maxTokens, resumable: chunks.length > 0 });
    for (const chunk of chunks) stream.addChunk({ prompt: chunk });
    if (chunks.length > 0) stream.endInput();
    return stream.result();
  });
  while (engine.hasWork()) engine.step();
  return (await Promise.all(streams)).map(({ tokens }) => tokens);
}
