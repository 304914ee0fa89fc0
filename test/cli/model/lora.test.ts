// LoRA adapters over HTTP, chosen by the name of the model.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeRandomLora } from '../../support/gguf/random-lora.js';
import { writeRandomModel } from '../../support/gguf/random-model.js';
import { llamaForTests } from '../../support/llama/library.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { serveModel } from './served-model.js';

describe.skipIf(llamaForTests().folder === null)('blockstep serve --lora NAME=PATH', () => {
  it('lists the adapters, and a request chooses one by its name', async () => {
    const folder = temporaryFolder();
    const [model, first, second] = ['my-model.gguf', 'a.lora', 'b.lora'].map((name) => join(folder, name));
    writeRandomModel(model);
    writeRandomLora(first);
    writeRandomLora(second, { seed: 2 });
    const { said, url, ask, post } = await serveModel(
      model,
      '--threads',
      '1',
      '--lora',
      `sql=${first}`,
      `poems=${second}`,
    );
    expect(said.stdout).toMatch(/^Adapters: sql, poems\.$/m);
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: object[] };
    expect(data).toMatchObject([
      { id: 'my-model', root: 'my-model', parent: null },
      { id: 'sql', root: 'sql', parent: 'my-model' },
      { id: 'poems', root: 'poems', parent: 'my-model' },
    ]);
    expect(JSON.stringify(data)).not.toContain(folder);
    expect(await (await fetch(`${url}/v1/models/sql`)).json()).toMatchObject({ id: 'sql' });

    const body = { prompt: 'Hello', max_tokens: 12, temperature: 0 };
    const texts = new Set<string>();
    for (const name of ['my-model', 'sql', 'poems']) {
      const answer = await ask('/v1/completions', { ...body, model: name });
      expect(answer).toMatchObject({ model: name });
      texts.add(JSON.stringify(answer.choices));
    }
    expect(texts.size).toBe(3);
    // Without a name the model answers alone.
    const unnamed = await ask('/v1/completions', body);
    expect(unnamed).toMatchObject({ model: 'my-model' });
    expect(texts).toContain(JSON.stringify(unnamed.choices));

    for (const name of ['other', first, '../a.lora', '__proto__']) {
      const refused = await post('/v1/completions', { ...body, model: name });
      expect(refused.status).toBe(404);
      const { error } = (await refused.json()) as { error: { message: string } };
      expect(error).toMatchObject({ code: 'model_not_found', param: 'model' });
      expect(error.message).toContain('"my-model", "sql", "poems" are');
      expect(error.message).not.toContain(second);
    }
  });
});
