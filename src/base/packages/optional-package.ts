import { createRequire } from 'node:module';
import { BlockstepError } from '../errors.js';

/**
 * Imports a package that only some users need, and that is therefore no dependency.
 * @param name the package, as npm names it
 * @param versions the versions that work, as npm writes them
 * @param what the feature that needs it, for the message
 * @throws ERR_BLOCKSTEP_NO_PACKAGE if it is not installed, or cannot be loaded; the message says
 * what to install
 */
export async function optionalPackage<Module>(name: string, versions: string, what: string): Promise<Module> {
  try {
    return (await import(name)) as Module;
  } catch (cause) {
    throw missing(name, versions, what, cause);
  }
}

/**
 * Checks that such a package is installed, without loading it: for a caller that will load it on
 * another thread.
 * @throws ERR_BLOCKSTEP_NO_PACKAGE as `optionalPackage`
 */
export function checkPackage(name: string, versions: string, what: string): void {
  try {
    createRequire(import.meta.url).resolve(name);
  } catch (cause) {
    throw missing(name, versions, what, cause);
  }
}

function missing(name: string, versions: string, what: string, cause: unknown): BlockstepError {
  // A range has characters with a meaning for shells.
  const wanted = /^[\w.-]+$/.test(versions) ? versions : `'${versions}'`;
  const message = `${what} needs the package ${name}, which could not be loaded: npm install ${name}@${wanted}`;
  return new BlockstepError('ERR_BLOCKSTEP_NO_PACKAGE', message, { cause });
}
