// `native/llama/api/api.h` agrees with the headers that node-llama-cpp ships.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../../../src/core/package-root.js';
import { LLAMA_VERSIONS } from '../../../../src/executors/llama-cpp/native/versions.js';
import { llamaForTests } from '../../../support/llama/library.js';
import { thinned } from '../../../support/share.js';
import { useTempFiles } from '../../../support/temp-file.js';
import { checkingProgram, readApi } from './check-api.js';

const OWN = join(packageRoot(), 'native', 'llama', 'api');
const own = readFileSync(join(OWN, 'api.h'), 'utf8');
const { modules } = llamaForTests();
const bundle = modules === null ? null : join(modules, 'node-llama-cpp', 'llama', 'gitRelease.bundle');
const compiler = process.env['CXX'] ?? 'c++';
const canCompile =
  bundle !== null && existsSync(bundle) && spawnSync(compiler, ['--version']).error === undefined;
const GGML = ['include', 'src', 'src/ggml-cpu'];
function git(args: readonly string[]): void {
  const { status, stderr } = spawnSync('git', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

if (!canCompile) console.error('skipped the API of llama.cpp: there are no headers, or there is no compiler');

/** Changes of the description, each with a name that the compiler then says. */
const CHANGES = [
  ['a field that is missing', '  uint32_t n_rs_seq;\n', '', 'n_outputs_max'],
  [
    'fields that changed places',
    '  bool embeddings;\n  bool offload_kqv;',
    '  bool offload_kqv;\n  bool embeddings;',
    'offload_kqv',
  ],
  ['an array of another length', '  int32_t op_params[16];', '  int32_t op_params[15];', 'op_params'],
  ['a field of a header that is not public', '  size_t wsize;\n', '', 'wdata'],
  ['a field of another type', '  float defrag_thold;', '  int32_t defrag_thold;', 'defrag_thold'],
  [
    'another argument',
    'llama_sampler_init_top_k(int32_t k)',
    'llama_sampler_init_top_k(int64_t k)',
    'llama_sampler_init_top_k',
  ],
  ['an argument less', ', bool special);', ');', 'llama_token_to_piece'],
  ['another result', 'bool llama_memory_seq_rm', 'void llama_memory_seq_rm', 'llama_memory_seq_rm'],
  ['another value', 'GGML_TYPE_Q8_0 = 8', 'GGML_TYPE_Q8_0 = 9', 'GGML_TYPE_Q8_0'],
] as const;

describe('the description of the API of llama.cpp', () => {
  it('has every function that is looked up, and no others', () => {
    const listed = [...readFileSync(join(OWN, 'functions.h'), 'utf8').matchAll(/X\((\w+)\) ?\\?$/gm)];
    const names = listed.map(([, name]) => name).filter((name) => name !== 'X');
    expect([...readApi(own).functions].sort()).toEqual([...names].sort());
    expect(names.length).toBeGreaterThan(50);
  });

  describe.skipIf(!canCompile)('beside its headers', () => {
    const write = useTempFiles();

    /** Whether a description agrees with the headers: the compiler's message, '' if it does. */
    function compare(api: string): string {
      const folder = dirname(write('api.h', api));
      const source = join(folder, 'llama.cpp');
      if (!existsSync(source)) {
        git(['clone', '--quiet', '--no-checkout', bundle as string, source]);
        // Of 200 MB the headers alone.
        git(['-C', source, 'checkout', '--quiet', 'HEAD', '--', 'include', 'ggml/include', 'ggml/src/*.h']);
      }
      const program = write('check.cc', checkingProgram(readApi(api)));
      const include = [
        folder,
        join(source, 'include'),
        ...GGML.map((path) => join(source, 'ggml', path)),
      ].map((path) => `-I${path}`);
      const { stderr } = spawnSync(compiler, ['-std=c++20', '-fsyntax-only', ...include, program], {
        encoding: 'utf8',
      });
      return stderr;
    }

    it('agrees with those of the version that works', () => {
      const info = join(modules as string, 'node-llama-cpp', 'llama', 'llama.cpp.info.json');
      expect(JSON.parse(readFileSync(info, 'utf8'))).toMatchObject({ tag: LLAMA_VERSIONS[0].release });
      expect(compare(own)).toBe('');
    });

    it.each(thinned(CHANGES, 1, 0, 5))('notices %s', (_, there, instead, name) => {
      expect(own).toContain(there);
      expect(compare(own.replace(there, instead))).toContain(name);
    });
  });
});
