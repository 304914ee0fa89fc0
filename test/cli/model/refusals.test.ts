// Refusals before a model is loaded, and their words.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type RandomModel, writeRandomModel } from '../../support/gguf/random-model.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { run } from '../run-program.js';

function modelFile(model: RandomModel = {}): string {
  const path = join(temporaryFolder(), 'model.gguf');
  writeRandomModel(path, model);
  return path;
}

/** Says where llama.cpp is, until the test ends. */
function libraryAt(folder: string): void {
  const before = process.env['BLOCKSTEP_LLAMA_LIBRARY'];
  process.env['BLOCKSTEP_LLAMA_LIBRARY'] = folder;
  onTestFinished(() => {
    if (before === undefined) delete process.env['BLOCKSTEP_LLAMA_LIBRARY'];
    else process.env['BLOCKSTEP_LLAMA_LIBRARY'] = before;
  });
}

describe('blockstep serve --model', () => {
  it.each<[string[], RegExp]>([
    [
      ['--ctx', '9000'],
      /^ERR_BLOCKSTEP_BAD_ARG: a context of 9000 tokens is more than the 4096 that the model/,
    ],
    [['--ctx', '5', '--max-model-len', '5'], /--ctx and --max-model-len are the same: give one of them/],
    [['--executor', 'simulated'], /--executor can only be used without --model/],
    [['--latency-ms', '5'], /--latency-ms can only be used with --executor reference/],
    [['--gpu-layers', '-1'], /--gpu-layers.*Expected an integer >= 0/],
    [['--threads', '0'], /--threads.*Expected an integer >= 1/],
    [['--attention', 'mine'], /--attention.*Allowed choices are auto, llama/],
    [['--cache-type', 'q2'], /--cache-type.*Allowed choices are f32, f16, q8_0/],
    [['--gpu-layers', '2', '--variant', 'cpu'], /--gpu-layers must be absent or 0 with --variant cpu, got 2/],
    [['--max-num-seqs', '257'], /--max-num-seqs must be at most 256 with such a model, got 257/],
    [
      ['--context-shift'],
      /^ERR_BLOCKSTEP_BAD_ARG: --context-shift must be absent: texts share their KV, .*: shorten the text/,
    ],
    [['--lora', 'sql'], /--lora.*Expected NAME=PATH/],
    [['--lora', 'sql=a.lora', '--lora', 'sql=b.lora'], /--lora.*There are two adapters of the name sql/],
    [['--lora', 'sql=/nothing.lora'], /^ERR_BLOCKSTEP_BAD_MODEL: the adapter "sql": .*does not exist/],
    [['--variant', 'tpu'], /--variant.*Allowed choices are auto, cpu, cuda, vulkan, metal/],
    [['--memory', '0'], /--memory.*Expected a number > 0/],
    [
      ['--chat-template', './nothing.jinja'],
      /^ERR_BLOCKSTEP_BAD_FILE: the chat template \.\/nothing\.jinja cannot/,
    ],
  ])('refuses %j before anything is loaded', async (args, message) => {
    const { code, stderr, stdout } = await run(['serve', '--model', modelFile(), ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('loading');
  });

  it.each<[string[], RandomModel, RegExp]>([
    [['--max-num-seqs', '129'], { architecture: 'gemma3' }, /--max-num-seqs must be at most 128 with such/],
    [
      ['--num-speculative-tokens', '2', '--speculative-method', 'ngram'],
      { architecture: 'mamba' },
      /--num-speculative-tokens must be 0, since the model has states, which cannot go back, got 2/,
    ],
    [
      ['--enable-prefix-caching'],
      { architecture: 'lfm2' },
      /--enable-prefix-caching must be absent, since the model has states, which cannot go back/,
    ],
  ])('refuses %j with such a model before it is loaded: %j', async (args, model, message) => {
    const { code, stderr, stdout } = await run(['serve', '--model', modelFile(model), ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('loading');
  });

  it('refuses a file that is missing, cut off, or of another kind', async () => {
    const file = modelFile();
    const cut = join(temporaryFolder(), 'cut.gguf');
    writeFileSync(cut, readFileSync(file).subarray(0, 500_000));
    for (const [path, message] of [
      [`${file}x`, / does not exist$/m],
      [cut, / is cut off or damaged: its weights end at byte \d+, and the file has 500000 bytes; /],
      [import.meta.filename, / is not a GGUF file: it begins with "\/\/ R", not "GGUF"$/m],
    ] as const) {
      const { code, stderr } = await run(['serve', '--model', path]);
      expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
      expect(stderr).toMatch(/^ERR_BLOCKSTEP_BAD_MODEL: the model /);
    }
  });

  it('refuses a model that is too large for the memory, and says what would fit', async () => {
    const { code, stderr } = await run(['serve', '--model', modelFile(), '--memory', '0.0001']);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^ERR_BLOCKSTEP_NO_MEMORY: .* needs about .* 0\.1 MiB are free\. No context would fit/,
    );
    const blocks = await run(['serve', '--model', modelFile(), '--memory', '0.08', '--num-blocks', '100000']);
    expect(blocks.stderr).toMatch(
      /KV cache for 1600000 tokens.* A pool and a context of \d+ tokens would fit/,
    );
  });

  it('says what to install where llama.cpp is missing', async () => {
    libraryAt(temporaryFolder());
    const { code, stderr } = await run(['serve', '--model', modelFile()]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^ERR_BLOCKSTEP_NO_PACKAGE: .*npm install (@node-llama-cpp\/\S+|node-llama-cpp)@3\.\d+\.\d+/m,
    );
  });

  it('refuses its flags where there is no model', async () => {
    for (const [flag, value] of [
      ['--ctx', '5'],
      ['--variant', 'cpu'],
      ['--chat-template', 'x'],
    ]) {
      const { code, stderr } = await run(['serve', flag, value]);
      expect([code, stderr]).toEqual([2, `ERR_BLOCKSTEP_BAD_ARG: ${flag} can only be used with --model\n`]);
    }
  });

  it('ends at once when it is interrupted before the model is there', async () => {
    const { code, stdout } = await run(['serve', '--model', modelFile()], { signal: AbortSignal.abort() });
    expect([code, stdout]).toEqual([130, '']);
  });
});
