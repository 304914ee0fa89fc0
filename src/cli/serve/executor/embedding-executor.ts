import { inWords } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import { LlamaEmbedder, type LlamaModel } from '../../../executors/llama-cpp/index.js';
import { counted, grouped } from '../../../report/markup/figures.js';
import type { SchedulerOptions } from '../../../scheduler/options/options.js';
import { modelOptions } from '../../../serve/model/loaded-model.js';
import type { ModelFlags } from './model-flags.js';
import type { ServedExecutor } from './served-executor.js';

/** An engine of an embedding model has no steps, so it gets the smallest pool that is allowed. */
const LEAST_BLOCKS = 2;

/**
 * The executor of a model that makes embeddings, or scores documents.
 * @param id the name of the model
 */
export async function embeddingExecutor(
  model: LlamaModel,
  id: string,
  { threads }: ModelFlags,
  { maxModelLen, maxNumSeqs }: Partial<SchedulerOptions>,
): Promise<ServedExecutor> {
  const executor = await LlamaEmbedder.create({
    model,
    ...(maxModelLen !== undefined && { maxModelLen }),
    ...(maxNumSeqs !== undefined && { maxNumSeqs }),
    ...(threads !== undefined && { threads }),
  });
  try {
    const { kind, dimensions, limits } = executor;
    const length = limits.maxModelLen as number;
    const { description, weightBytes, library } = model.info;
    const does = kind === 'scores' ? 'scores documents' : `makes vectors of ${grouped(dimensions)} numbers`;
    return {
      executor,
      model: await modelOptions(model, { id, vectors: kind }),
      options: { numBlocks: LEAST_BLOCKS, maxModelLen: length },
      notes: [
        `${description}, ${inWords(weightBytes)} of weights, by llama.cpp ${library.version}, in ${counted(executor.threads, 'thread')}.`,
        `It ${does}, and generates no text: of texts of at most ${counted(length, 'token')}.`,
      ],
      example:
        kind === 'scores'
          ? {
              path: '/v1/rerank',
              body: { query: 'When do I prune roses?', documents: ['In spring.', 'On Mars.'] },
            }
          : { path: '/v1/embeddings', body: { input: 'When do I prune roses?' } },
      close: () => model.dispose(),
    };
  } catch (error) {
    executor.dispose();
    throw error;
  }
}
