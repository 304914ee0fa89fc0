import { inWords } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import { isHubName } from '../../../executors/llama-cpp/hub/hub-name.js';
import { downloadLlamaModel } from '../../../executors/llama-cpp/index.js';
import type { Io } from '../../terminal/io.js';
import { Loading } from './loading.js';

/**
 * The file of a model. A model of a hub, `hf:OWNER/NAME[:WHICH]`, is downloaded first.
 * @throws by rejection the errors of `downloadLlamaModel`
 */
export async function modelFile(model: string, { stderr, signal }: Io): Promise<string> {
  if (!isHubName(model)) return model;
  let loading: Loading | null = null;
  try {
    const { path, fetched, unasked } = await downloadLlamaModel(model, {
      onProgress: (bytes, ofBytes) => {
        loading ??= new Loading(stderr, `${model} (${inWords(ofBytes)})`, true);
        loading.update(bytes / ofBytes);
      },
      signal,
    });
    (loading as Loading | null)?.done();
    if (unasked !== null) stderr.write(`${unasked}: the earlier download is used\n`);
    stderr.write(`${model} ${fetched > 0 ? 'is' : 'was downloaded earlier, and is'} at ${path}\n`);
    return path;
  } catch (error) {
    (loading as Loading | null)?.failed();
    throw error;
  }
}
