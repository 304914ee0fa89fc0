// A model is fetched from a hub, served, and served again without the hub.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FakeHub } from '../../executors/llama-cpp/hub/fake-hub.js';
import { writeModelParts } from '../../support/gguf/random-model.js';
import { llamaForTests } from '../../support/llama/library.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { serveModel } from './served-model.js';

describe.skipIf(llamaForTests().folder === null)('blockstep serve --model hf:OWNER/NAME', () => {
  it('fetches a model of several parts, says where it lies, and serves it; and again without a hub', async () => {
    const hub = await FakeHub.start();
    for (const path of writeModelParts(join(temporaryFolder(), 'tiny-Q4_K_M'), 2))
      hub.files.set(basename(path), readFileSync(path));
    const models = temporaryFolder();
    const environment = { HF_ENDPOINT: hub.url, HF_TOKEN: 'hf_secret', BLOCKSTEP_MODELS: models };
    const [first] = hub.files.keys();
    const path = join(models, 'someone', 'model', first);
    const fresh = await serveModel('hf:someone/model', '--threads', '1', { environment });
    expect(fresh.said.stderr).toMatch(/^downloading hf:someone\/model \(\d+\.\d MiB\)$/m);
    expect(fresh.said.stderr).toMatch(/: 100 %\ndownloaded in [\d.]+ s$/m);
    expect(fresh.said.stderr).toContain(`hf:someone/model is at ${path}\n`);
    expect(fresh.said.stdout).toMatch(/^"tiny-Q4_K_M" is served at/);
    const body = { prompt: 'a', max_tokens: 3, temperature: 0 };
    const { choices } = await fresh.ask('/v1/completions', body);
    const offline = { ...environment, HF_HUB_OFFLINE: '1' };
    const again = await serveModel('hf:someone/model', '--threads', '1', { environment: offline });
    expect(again.said.stderr).toContain(`HF_HUB_OFFLINE is set: the earlier download is used\n`);
    expect(again.said.stderr).toContain(`hf:someone/model was downloaded earlier, and is at ${path}\n`);
    expect((await again.ask('/v1/completions', body)).choices).toEqual(choices);
    for (const { stdout, stderr } of [fresh.said, again.said])
      expect(stdout + stderr).not.toContain('hf_secret');
  });
});
