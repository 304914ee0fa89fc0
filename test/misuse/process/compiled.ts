import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import ts from 'typescript';
import { afterAll, beforeAll } from 'vitest';
import { addonInUse } from '../../support/addon.js';

const source = fileURLToPath(new URL('../../../src', import.meta.url));
const packages = fileURLToPath(new URL('../../../node_modules', import.meta.url));

/**
 * The package as plain JavaScript in a folder of its own, for processes and workers that must start in milliseconds
 * and without a test runner in them. `env` tells it where the addon lies.
 */
export class Compiled {
  readonly index: string;
  readonly env: NodeJS.ProcessEnv;
  readonly #folder = mkdtempSync(join(tmpdir(), 'blockstep-js-'));

  constructor() {
    writeFileSync(join(this.#folder, 'package.json'), '{"type":"module"}');
    symlinkSync(packages, join(this.#folder, 'node_modules'));
    const files = readdirSync(source, { recursive: true, encoding: 'utf8' });
    for (const file of files) {
      if (!file.endsWith('.ts') || file.startsWith('cli')) continue;
      const { outputText } = ts.transpileModule(readFileSync(join(source, file), 'utf8'), {
        compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022 },
      });
      const target = join(this.#folder, file.replace(/ts$/, 'js'));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, outputText);
    }
    this.index = pathToFileURL(join(this.#folder, 'index.js')).href;
    this.env = { ...process.env, BLOCKSTEP_ADDON: addonInUse(), BLOCKSTEP_INDEX: this.index };
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The compiled package for the tests of a suite: made before the first of them, removed after the last. */
export function useCompiled(): Pick<Compiled, 'env' | 'index'> {
  let compiled: Compiled;
  beforeAll(() => {
    compiled = new Compiled();
  });
  afterAll(() => compiled.remove());
  return {
    get env() {
      return compiled.env;
    },
    get index() {
      return compiled.index;
    },
  };
}
