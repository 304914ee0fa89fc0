import { BlockstepError } from '../../../base/errors.js';
import type { HubFile } from './listing.js';

/** The default quantization if there is a choice: small, and nearly as good as larger ones. */
const USUAL = 'Q4_K_M';
/** Files beside a model that are no models: vision encoders, statistics for quantization. */
const BESIDE = /(^|[-_.])(mmproj|imatrix)([-_.]|$)/i;
/** A part of a split model: its number, and the number of parts. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i;

/**
 * Finds the files of the wanted model: all its parts, in order.
 * @param which the quantization of its weights, or the path of its (first) file; null: the default
 * @throws ERR_BLOCKSTEP_BAD_ARG if no model or several models match; the message lists the models
 */
export function chooseFiles(
  files: readonly HubFile[],
  which: string | null,
  what: string,
): readonly HubFile[] {
  const models = new Map<string, HubFile[]>();
  for (const file of files) {
    const name = file.path.slice(file.path.lastIndexOf('/') + 1);
    if (BESIDE.test(name)) continue;
    const key = PART.exec(file.path)?.[1] ?? file.path;
    models.set(key, [...(models.get(key) ?? []), file]);
  }
  const all = [...models.values()].map((parts) => parts.sort((a, b) => (a.path < b.path ? -1 : 1)));
  const found =
    all.length === 1 && which === null ? all : all.filter(([first]) => isMeant(first, which ?? USUAL));
  if (found.length === 1) return whole(found[0], what);
  const names = all.map(([{ path }]) => path);
  const there = names.length === 0 ? 'no GGUF file at all' : names.sort().join(', ');
  const wrong = found.length === 0 ? 'no model' : `${found.length} models`;
  const message = `${what} has ${wrong} for ${which ?? `${USUAL}, the default`}. There is: ${there.slice(0, 2000)}. Name one as hf:OWNER/NAME:WHICH, by its quantization or its path`;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message);
}

function isMeant({ path }: HubFile, which: string): boolean {
  if (path === which) return true;
  const words = which.replace(/[^\w]/g, '\\$&');
  const name = path.slice(path.lastIndexOf('/') + 1).replace(/\.gguf$/i, '');
  return new RegExp(`(^|[-.])${words}(-\\d{5}-of-\\d{5})?$`, 'i').test(name);
}

/** @throws ERR_BLOCKSTEP_BAD_ARG if parts are missing */
function whole(parts: readonly HubFile[], what: string): readonly HubFile[] {
  const split = PART.exec(parts[0].path);
  if (split === null) return parts;
  const count = Number(split[3]);
  const isWhole =
    parts.length === count && parts.every(({ path }, i) => Number(PART.exec(path)?.[2]) === i + 1);
  if (isWhole) return parts;
  const message = `${what} has not all ${count} parts of ${parts[0].path}: ${parts.length} are there`;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message);
}
