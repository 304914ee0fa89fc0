import { readFileSync } from 'node:fs';
import { BlockstepError, describeError } from '../../base/errors.js';
import { type Profile, parseProfile } from './profile.js';

/**
 * Reads a file and parses it by `parse`.
 * @throws ERR_BLOCKSTEP_BAD_FILE if it cannot be read, or if `parse` throws
 */
export function readBy<T>(parse: (text: string) => T, path: string): T {
  try {
    return parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? (cause as Error).message;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${path}: cannot be read: ${reason}`, { cause });
  }
}

/** Reads a JSON file. @throws ERR_BLOCKSTEP_BAD_FILE */
export function readJson(path: string): unknown {
  return readBy<unknown>(JSON.parse, path);
}

/** Reads and checks a profile. @throws ERR_BLOCKSTEP_BAD_FILE naming the file and the mistake */
export function readProfile(path: string): Profile {
  const value = readJson(path);
  try {
    return parseProfile(value);
  } catch (cause) {
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${path}: is no profile: ${describeError(cause)}`, {
      cause,
    });
  }
}
