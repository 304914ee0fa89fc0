import { badModel } from './bad-model.js';

/** The file name of a part, as llama.cpp expects it. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/**
 * The paths of all parts of a model, from the path of the first part.
 * @param count the number of parts by the file (`split.count`): absent or 1 for a model of one file
 * @throws ERR_BLOCKSTEP_BAD_MODEL if the path is that of another part, or does not lead to the
 * other parts
 */
export function partPaths(path: string, count: unknown): readonly string[] {
  if (typeof count !== 'number' || count <= 1) return [path];
  const [, prefix, number, of] = PART.exec(path) ?? [];
  if (prefix === undefined || Number(of) !== count)
    throw badModel(path, `is one of ${count} parts, and is not named NAME-00001-of-${digits(count)}.gguf`);
  if (Number(number) !== 1)
    throw badModel(
      path,
      `is part ${Number(number)} of ${count}; name the first part, with the others beside it`,
    );
  return Array.from({ length: count }, (_, i) => `${prefix}-${digits(i + 1)}-of-${digits(count)}.gguf`);
}

function digits(number: number): string {
  return String(number).padStart(5, '0');
}
