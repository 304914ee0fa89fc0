import { badModel } from './bad-model.js';

/** How the file of a part is named, as llama.cpp looks for it. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/**
 * The paths of all parts of a model, by that of its first one.
 * @param count what the file says of it (`split.count`): absent or 1 for a model of one file
 * @throws ERR_BLOCKSTEP_BAD_MODEL for another part, or a name by which the others cannot be found
 */
export function partPaths(path: string, count: unknown): readonly string[] {
  if (typeof count !== 'number' || count <= 1) return [path];
  const [, prefix, number, of] = PART.exec(path) ?? [];
  if (prefix === undefined || Number(of) !== count)
    throw badModel(path, `is one of ${count} parts, and is not named NAME-00001-of-${digits(count)}.gguf`);
  if (Number(number) !== 1)
    throw badModel(
      path,
      `is part ${Number(number)} of ${count}; the first one is to be named, beside the others`,
    );
  return Array.from({ length: count }, (_, i) => `${prefix}-${digits(i + 1)}-of-${digits(count)}.gguf`);
}

function digits(number: number): string {
  return String(number).padStart(5, '0');
}
