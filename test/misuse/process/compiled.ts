import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll } from 'vitest';
import { addonInUse } from '../../support/addon.js';
import { facesFolder } from '../../support/compiled/compile-scripts.js';

/** The package as plain JavaScript, for processes and workers that must start in milliseconds and without a test runner in them. */
interface Compiled {
  /** Its index. */
  readonly index: string;
  /** Tells a process the index and where the addon lies. */
  readonly env: NodeJS.ProcessEnv;
}

/** The compiled package for the tests of a suite: that which was made before all suites, unless a source has changed since. */
export function useCompiled(): Compiled {
  let folder: string;
  beforeAll(async () => {
    folder = await facesFolder();
  });
  const index = () => pathToFileURL(join(folder, 'src/index.js')).href;
  return {
    get env() {
      return { ...process.env, BLOCKSTEP_ADDON: addonInUse(), BLOCKSTEP_INDEX: index() };
    },
    get index() {
      return index();
    },
  };
}
