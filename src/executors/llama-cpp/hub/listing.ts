// The hub's list of a model's files.
import { isObject } from '../../../base/checks.js';
import { downloadError } from './download-error.js';
import { isPlainPath } from './hub-name.js';

/** A file of a model on a hub. */
export interface HubFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** The expected hash of the content: `sha256:`, or `git:` for git's blob id. */
  readonly hash: string;
}

/**
 * Reads a hub's description of a model. Files that are no models, or lack a needed field, are left
 * out.
 */
export function readListing(text: string, what: string): { commit: string; files: readonly HubFile[] } {
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    said = null;
  }
  if (!isObject(said) || !Array.isArray(said['siblings']) || !isCommit(said['sha']))
    throw downloadError(`the hub does not list the files of ${what} in a known format`);
  const files: HubFile[] = [];
  for (const each of said['siblings'] as unknown[]) {
    if (!isObject(each) || typeof each['rfilename'] !== 'string') continue;
    const path = each['rfilename'];
    if (!/\.gguf$/i.test(path)) continue;
    if (!isPlainPath(path))
      throw downloadError(
        `${what} has a file whose name would leave its folder: ${JSON.stringify(path.slice(0, 80))}`,
      );
    const file = contentOf(each);
    if (file === null) throw downloadError(`the hub gives no size and hash for ${path} of ${what}`);
    files.push({ path, ...file });
  }
  return { commit: said['sha'], files };
}

/** Whether a value names a commit of git. */
function isCommit(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{40}$/.test(value);
}

/** Large files have a hash of their content alone. Other files have git's blob id. */
function contentOf(file: Record<string, unknown>): Omit<HubFile, 'path'> | null {
  const { size, lfs, blobId } = file;
  const large = isObject(lfs) ? lfs : null;
  const bytes = large?.['size'] ?? size;
  if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) return null;
  const sha256 = large?.['sha256'];
  if (typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256))
    return { size: bytes as number, hash: `sha256:${sha256}` };
  return large === null && isCommit(blobId) ? { size: bytes as number, hash: `git:${blobId}` } : null;
}
