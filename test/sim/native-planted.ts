// Builds the addon with a bug planted.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { packageRoot } from '../../src/core/package-root.js';
import { type Plant, plantInto } from './shared/plant.js';

const ROOT = packageRoot();

/** A copy of the native sources in which bugs are planted, one after the other. The first build takes minutes, the next ones seconds. */
export class NativeCopy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'blockstep-native-'));
  #isConfigured = false;

  constructor() {
    const isSource = (path: string): boolean => !/^native[\\/]build/.test(relative(ROOT, path));
    cpSync(join(ROOT, 'native'), join(this.#folder, 'native'), { recursive: true, filter: isSource });
    cpSync(join(ROOT, 'package.json'), join(this.#folder, 'package.json'));
    symlinkSync(join(ROOT, 'node_modules'), join(this.#folder, 'node_modules'));
  }

  /** Builds the addon with one bug in it, and calls `act` with its path. @throws if it does not build */
  async with<T>(plant: Plant, act: (addon: string) => Promise<T>): Promise<T> {
    const path = join(this.#folder, plant.file);
    const source = readFileSync(path, 'utf8');
    writeFileSync(path, plantInto(source, plant));
    try {
      const { status, stdout, stderr } = this.#build();
      if (status !== 0)
        throw new Error(
          `plant ${plant.name} does not build:\n${String(stdout).slice(-2000)}${String(stderr).slice(-2000)}`,
        );
      return await act(join(this.#folder, 'native', 'build', 'Release', 'blockstep.node'));
    } finally {
      writeFileSync(path, source);
    }
  }

  /** Configures once: configuring again would build all again. */
  #build(): ReturnType<typeof spawnSync> {
    const settings = {
      cwd: this.#folder,
      env: { ...process.env, BLOCKSTEP_CUDA: 'OFF' },
      encoding: 'utf8',
    } as const;
    if (this.#isConfigured) return spawnSync('cmake', ['--build', join('native', 'build')], settings);
    this.#isConfigured = true;
    return spawnSync(process.execPath, [join('native', 'tools', 'build.mjs')], settings);
  }

  dispose(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
