import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vitest/config';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** The package, and the scripts that compute much with it. */
const FOLDERS = ['src/', 'test/parity/reference/', 'test/sim/'].map((folder) => join(ROOT, folder));

/** Files that Node runs itself. */
export const COMPILED = /\/build\/compiled\//;

/**
 * Suites import the package as it was compiled before all of them (`compile-scripts.ts`): Node itself runs it, as it does for
 * users. The module runner of vitest would look up each imported name at each use, which takes half as much processor time
 * again. Off where nothing was compiled, and while vitest watches the sources.
 */
export function compiledPackage(): Plugin {
  let isWatching = false;
  return {
    name: 'compiled-package',
    enforce: 'pre',
    configureVitest({ vitest }) {
      isWatching = vitest.config.watch;
    },
    async resolveId(source, importer, options) {
      const folder = process.env['BLOCKSTEP_COMPILED'];
      if (folder === undefined || isWatching || importer === undefined) return null;
      const resolved = await this.resolve(source, importer, { ...options, skipSelf: true });
      if (resolved === null || !FOLDERS.some((folder) => resolved.id.startsWith(folder))) return resolved;
      const script = join(folder, resolved.id.slice(ROOT.length).replace(/\.ts$/, '.js'));
      return existsSync(script) ? script : resolved;
    },
  };
}
