// `downloadLlamaModel`: fetches the missing files of a model.
import { homedir } from 'node:os';
import { join } from 'node:path';
import { badArg, isRecord } from '../../../base/checks.js';
import { BlockstepError } from '../../../base/errors.js';
import { checkNames, knownNames } from '../../../base/known-names.js';
import { chooseFiles } from './choose-files.js';
import { downloadError } from './download-error.js';
import { downloadFile } from './download-file.js';
import { Hub, hubSettings, Unavailable } from './hub.js';
import { type HubName, readHubName } from './hub-name.js';
import type { HubFile } from './listing.js';
import { ModelCache } from './model-cache.js';

/** Options of `downloadLlamaModel`. */
export interface LlamaDownloadOptions {
  /**
   * The folder for models. Default: the environment variable BLOCKSTEP_MODELS, else
   * `blockstep/models` in the user's cache folder.
   */
  readonly folder?: string;
  /**
   * Called with the bytes so far and the total. Bytes of earlier tries count. An error of this
   * function ends the download.
   */
  readonly onProgress?: (bytes: number, ofBytes: number) => void;
  /**
   * Ends the download, and rejects the promise with its reason. The next download continues there.
   */
  readonly signal?: AbortSignal;
}

/** A downloaded model. */
export interface DownloadedLlamaModel {
  /** Path of its file. A model in several parts has the path of the first part. */
  readonly path: string;
  /** Bytes that this call downloaded. */
  readonly fetched: number;
  /** Why the hub was not asked for a newer version; null: it was asked. */
  readonly unasked: string | null;
}

const OPTIONS = knownNames<LlamaDownloadOptions>('the options of downloadLlamaModel', {
  folder: true,
  onProgress: true,
  signal: true,
});

/**
 * Downloads a model from Hugging Face's hub, unless the hub's version is here already. An
 * interrupted download continues where it ended. A file gets its name once its content has the hash
 * of the hub. HF_ENDPOINT names another hub. HF_TOKEN gives access to private models.
 * HF_HUB_OFFLINE=1 uses only the models that are here.
 * @param name `hf:OWNER/NAME`, or with a quantization or the path of a file: `hf:OWNER/NAME:Q8_0`
 * @returns a promise of the model's place. It is rejected with ERR_BLOCKSTEP_BAD_ARG, also if no
 * model or several models of the hub match; ERR_BLOCKSTEP_DOWNLOAD; the reason of `signal`
 */
export async function downloadLlamaModel(
  name: string,
  options: LlamaDownloadOptions = {},
): Promise<DownloadedLlamaModel> {
  const from = readHubName(name);
  const { folder = defaultFolder(), onProgress = () => {}, signal = null } = checked(options);
  if (typeof folder !== 'string' || folder === '') throw badArg('folder', folder, 'a path');
  if (typeof onProgress !== 'function') throw badArg('onProgress', onProgress, 'a function');
  if (signal !== null && !(signal instanceof AbortSignal)) throw badArg('signal', signal, 'an AbortSignal');
  return await fetchModel(from, { folder, onProgress, signal, pauseMs: 1000 }, process.env);
}

function checked(options: LlamaDownloadOptions): LlamaDownloadOptions {
  if (!isRecord(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  return options;
}

/** How a model is fetched. */
export interface FetchModelOptions {
  readonly folder: string;
  readonly onProgress: (bytes: number, ofBytes: number) => void;
  readonly signal: AbortSignal | null;
  /** Milliseconds between two tries. */
  readonly pauseMs: number;
}

/** See `downloadLlamaModel`. */
export async function fetchModel(
  from: HubName,
  { folder, onProgress, signal, pauseMs }: FetchModelOptions,
  environment: NodeJS.ProcessEnv,
): Promise<DownloadedLlamaModel> {
  const settings = hubSettings(environment);
  const what = `hf:${from.owner}/${from.name}`;
  const cache = new ModelCache(folder, from.owner, from.name);
  const hub = new Hub(settings, signal);
  signal?.throwIfAborted();
  let listed: { commit: string; files: readonly HubFile[] };
  try {
    if (settings.isOffline) throw new Unavailable('HF_HUB_OFFLINE is set');
    listed = await hub.list(from);
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return cached(cache, from, what, error);
  }
  const files = chooseFiles(listed.files, from.which, what);
  const missing = cache.missing(files);
  const place = { path: cache.place(files[0].path), unasked: null };
  if (missing.length === 0) return { ...place, fetched: 0 };
  const unlock = cache.lock();
  try {
    // Parts of two versions make no model. A part that will be replaced does not count while a part
    // is missing.
    cache.forget(...missing.map(({ path }) => path));
    const ofBytes = missing.reduce((sum, { size }) => sum + size, 0);
    let bytes = 0;
    const onBytes = (more: number): void => {
      bytes += more;
      onProgress(bytes, ofBytes);
    };
    for (const file of missing) {
      cache.prepare(file.path);
      const { commit } = listed;
      await downloadFile(file, cache.partial(file), { hub, from, commit, signal, pauseMs, onBytes });
      cache.adopt(file);
    }
    return { ...place, fetched: bytes };
  } finally {
    unlock();
  }
}

/** The cached model, for a hub that is not asked or does not answer. */
function cached(cache: ModelCache, from: HubName, what: string, why: Unavailable): DownloadedLlamaModel {
  try {
    const [first] = chooseFiles(cache.files(), from.which, what);
    return { path: cache.place(first.path), fetched: 0, unasked: why.message };
  } catch (error) {
    if (!(error instanceof BlockstepError)) throw error;
    throw downloadError(`${why.message}, and ${cache.folder} does not have it: ${error.message}`, why);
  }
}

function defaultFolder(): string {
  const { BLOCKSTEP_MODELS, XDG_CACHE_HOME, LOCALAPPDATA } = process.env;
  if (BLOCKSTEP_MODELS) return BLOCKSTEP_MODELS;
  const caches = (process.platform === 'win32' ? LOCALAPPDATA : XDG_CACHE_HOME) || join(homedir(), '.cache');
  return join(caches, 'blockstep', 'models');
}
