import { BlockstepError } from '../../base/errors.js';

/**
 * Imports a package that only some users need, and that is therefore no dependency.
 * @param name the package, as npm names it
 * @param versions the versions that work, as npm writes them
 * @param what who needs it, for the message
 * @throws ERR_BLOCKSTEP_NO_PACKAGE if it is not installed, or cannot be loaded; says what to install
 */
export async function optionalPackage<Module>(name: string, versions: string, what: string): Promise<Module> {
  try {
    return (await import(name)) as Module;
  } catch (cause) {
    const message = `${what} needs the package ${name}, which could not be loaded: npm install ${name}@'${versions}'`;
    throw new BlockstepError('ERR_BLOCKSTEP_NO_PACKAGE', message, { cause });
  }
}
