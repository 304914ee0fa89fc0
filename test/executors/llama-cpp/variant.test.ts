// The choice of llama.cpp's package if several are installed.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { chooseVariant, findsGpu } from '../../../src/executors/llama-cpp/native/library.js';
import { filesIn } from '../../../src/executors/llama-cpp/native/packages.js';
import { hasLlama, libraryFolder } from './use-llama.js';

const isLinux = process.platform === 'linux' && process.arch === 'x64';

describe.skipIf(!isLinux)('the variant of llama.cpp that is taken by itself', () => {
  /**
   * The variant that is chosen where these packages are installed, and these find a GPU; and the
   * packages that were asked.
   */
  async function chosen(installed: readonly string[], withGpu: readonly string[]) {
    const asked: string[] = [];
    const variant = await chooseVariant({
      folders: (name) => {
        if (!installed.includes(name.replace('@node-llama-cpp/linux-x64-', '')))
          return Promise.reject(new Error('not installed'));
        return Promise.resolve({ folder: name, fallback: '' });
      },
      findsGpu: ({ folder }) => {
        asked.push(folder.replace('@node-llama-cpp/linux-x64-', ''));
        return Promise.resolve(withGpu.includes(asked.at(-1)!));
      },
    });
    return [variant, asked];
  }

  it('is one for GPUs whose package is there and finds one', async () => {
    expect(await chosen([], [])).toEqual(['auto', []]);
    expect(await chosen(['cuda'], ['cuda'])).toEqual(['cuda', ['cuda']]);
    expect(await chosen(['vulkan'], ['vulkan'])).toEqual(['vulkan', ['vulkan']]);
    expect(await chosen(['cuda', 'vulkan'], ['cuda', 'vulkan'])).toEqual(['cuda', ['cuda']]);
    expect(await chosen(['cuda', 'vulkan'], ['vulkan'])).toEqual(['vulkan', ['cuda', 'vulkan']]);
    expect(await chosen(['cuda', 'vulkan'], [])).toEqual(['auto', ['cuda', 'vulkan']]);
  });

  it.skipIf(!hasLlama)('is asked in a process of its own, and a library for CPUs finds none', async () => {
    expect(await findsGpu({ folder: libraryFolder(), fallback: '' })).toBe(false);
    expect(await findsGpu({ folder: libraryFolder(), fallback: '/nowhere' })).toBe(false);
    // The process itself reports it: a process that failed would end with another code.
    const files = JSON.stringify(filesIn({ folder: libraryFolder(), fallback: '' }));
    const script = scriptArguments(import.meta.url, '../../../src/executors/llama-cpp/native/find-gpu');
    expect(spawnSync(process.execPath, [...script, files]).status).toBe(3);
  });
});
