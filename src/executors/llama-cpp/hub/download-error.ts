import { BlockstepError, messageOf } from '../../../base/errors.js';

/**
 * The error of a model that could not be downloaded, ERR_BLOCKSTEP_DOWNLOAD.
 * @param what the event, in words that hold no secret
 */
export function downloadError(what: string, cause?: unknown): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DOWNLOAD', what, cause === undefined ? undefined : { cause });
}

/** The system's code or message for a failed call, or for a failure of the network. */
export function systemWords(error: unknown): string {
  let at = error;
  for (let depth = 0; depth < 4 && at instanceof Error; depth++, at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return messageOf(error);
}
