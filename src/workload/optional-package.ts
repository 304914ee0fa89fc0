import { BlockstepError } from '../core/errors.js';

/**
 * The module `specifier`, which belongs to an optional peer dependency that only the caller's feature needs.
 * @param feature what needs it, as the subject of the error message
 * @throws ERR_BLOCKSTEP_NO_PACKAGE naming the package to install when it is not there.
 */
export async function importOptional<T>(specifier: string, feature: string): Promise<T> {
  try {
    return (await import(specifier)) as T;
  } catch (cause) {
    // Only the package itself may be missing: a package that is there but broken must say so in its own words.
    const name = packageName(specifier);
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.startsWith(`Cannot find package '${name}`)) throw cause;
    throw notInstalled(name, feature, cause);
  }
}

/**
 * The path of `specifier`, a file of an optional peer dependency.
 * @param resolve finds it, as `require.resolve` of the caller does
 * @throws ERR_BLOCKSTEP_NO_PACKAGE as `importOptional`
 */
export function resolveOptional(
  specifier: string,
  feature: string,
  resolve: (specifier: string) => string,
): string {
  try {
    return resolve(specifier);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    throw notInstalled(packageName(specifier), feature, cause);
  }
}

function notInstalled(name: string, feature: string, cause: unknown): BlockstepError {
  const advice = `${feature} needs the package ${name}, which is not installed: npm install ${name}`;
  return new BlockstepError('ERR_BLOCKSTEP_NO_PACKAGE', advice, { cause });
}

function packageName(specifier: string): string {
  const parts = specifier.split('/');
  return specifier.startsWith('@') ? `${parts[0]}/${parts[1]}` : parts[0];
}
