import { BlockstepError } from '../../../base/errors.js';

/**
 * The error that refuses a model's file, ERR_BLOCKSTEP_BAD_MODEL.
 * @param what the defect, in words behind the path
 */
export function badModel(path: string, what: string, cause?: unknown): BlockstepError {
  const message = `the model ${path} ${what}`;
  return new BlockstepError('ERR_BLOCKSTEP_BAD_MODEL', message, cause === undefined ? undefined : { cause });
}
