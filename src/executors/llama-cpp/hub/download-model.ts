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
  /** Where models are kept. Default: the environment variable BLOCKSTEP_MODELS, else `blockstep/models` in the user's folder of caches. */
  readonly folder?: string;
  /** Is told how many bytes are there, of how many, those of earlier tries included. What it throws ends the download. */
  readonly onProgress?: (bytes: number, ofBytes: number) => void;
  /** Ends the download, which goes on there the next time; the promise is rejected with its reason. */
  readonly signal?: AbortSignal;
}

/** A model that lies here. */
export interface DownloadedLlamaModel {
  /** Path of its file, the first one of several parts. */
  readonly path: string;
  /** Bytes that were fetched for it now. */
  readonly fetched: number;
  /** Why the hub was not asked whether there is a newer one; null: it was. */
  readonly unasked: string | null;
}

const OPTIONS = knownNames<LlamaDownloadOptions>('the options of downloadLlamaModel', {
  folder: true,
  onProgress: true,
  signal: true,
});

/**
 * Fetches a model from Hugging Face's hub, unless it lies here in the version that the hub has. A download that was broken off goes on where it
 * ended; a file gets its name when its content has the hash that the hub says. HF_ENDPOINT names another hub, HF_TOKEN lets into private
 * models, HF_HUB_OFFLINE=1 takes what is here.
 * @param name `hf:OWNER/NAME`, or with a quantization or the path of a file: `hf:OWNER/NAME:Q8_0`
 * @returns a promise of where it lies. It is rejected with ERR_BLOCKSTEP_BAD_ARG, also where the hub has no such model or several;
 * ERR_BLOCKSTEP_DOWNLOAD; the reason of `signal`
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
    // Parts of two versions make no model: while one is missing none counts that will be another.
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

/** What is here, where the hub is not asked or does not answer. */
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
