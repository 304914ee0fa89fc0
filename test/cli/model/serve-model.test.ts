// Models of all kinds are served: chosen sizes and their output, streams, vocabularies, end tokens,
// sampling, templates, an interrupt in the middle of answers.
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { eventsOf } from '../../serve/support/served.js';
import { endTokens, type RandomModel, writeRandomModel } from '../../support/gguf/random-model.js';
import { llamaForTests } from '../../support/llama/library.js';
import { isQuick, share } from '../../support/share.js';
import { temporaryFolder, useTempFiles } from '../../support/temp-file.js';
import { until } from '../../support/waiting.js';
import { serveModel, startServer } from './served-model.js';

const { folder, reason } = llamaForTests();
const TEXT = 'Hello the abbé, 漢字 🙂 <tag>';
const USER = { role: 'user' as const, content: TEXT };

function modelFile(model: RandomModel = {}): string {
  const path = join(temporaryFolder(), 'my-model.gguf');
  writeRandomModel(path, model);
  return path;
}

describe.skipIf(folder === null)(`blockstep serve --model ${reason}`, () => {
  // For all tests that ask it alone: a process takes longer to start than they do. The last one ends it.
  let plain: Awaited<ReturnType<typeof startServer>>;
  const write = useTempFiles();
  beforeAll(async () => {
    const file = write('my-model.gguf', '');
    writeRandomModel(file);
    plain = await startServer(file, '--threads', '1');
  });
  afterAll(() => plain?.end());

  it('serves a model, says what it chose, and streams what it says', async () => {
    const { said, url, ask } = plain;
    expect(said.stderr).toMatch(/^loading \S+my-model\.gguf \(0\.9 MiB\)\nloaded in \d+\.\d s\n\{/);
    expect(said.stdout).toMatch(/^"my-model" is served at http:\/\/127\.0\.0\.1:\d+\n/);
    expect(said.stdout).toMatch(
      /^random llama \(llama .*F32\), 0\.9 MiB of weights, by llama\.cpp .* on the CPU, in 1 thread\.$/m,
    );
    expect(said.stdout).toMatch(
      /^Context 4,096 tokens a request; KV cache 32,768 tokens, 16 MiB as f16; at most 16 requests and 512 tokens a step; prefix cache on\.$/m,
    );
    expect(said.stdout).toMatch(
      /^Unless a request says otherwise: temperature 0\.8, top_k 40, top_p 0\.95, min_p 0\.05\.$/m,
    );
    // The request that the program suggests works.
    const [, path, asked] = /^Try: {2}curl -N http:\/\/[^/]+(\S+) .*-d '(.*)'$/m.exec(said.stdout)!;
    const tried = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...(JSON.parse(asked) as object), max_tokens: 20 }),
    });
    expect((await eventsOf(tried)).length).toBeGreaterThan(1);
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    expect((await openai.models.list()).data.map(({ id }) => id)).toEqual(['my-model']);
    const request = { model: 'my-model', messages: [USER], max_tokens: 24, seed: 5 };
    const streamed = await openai.chat.completions.stream(request).finalContent();
    const whole = await openai.chat.completions.create(request);
    expect(streamed).toBe(whole.choices[0].message.content);
    expect(whole.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThanOrEqual(16);
    const { error } = await ask('/v1/embeddings', { input: 'a' });
    expect(error.code).toBe('unsupported_route');
  });

  it('has tools called that must be called, by a grammar of their schemas', async () => {
    const { said, url } = plain;
    expect(said.stdout).toMatch(
      /^Attention by blockstep \((avx512|avx2|neon|plain)\); --attention llama has/m,
    );
    expect(said.stdout).toMatch(/^Tool calls are parsed as json, reasoning as none \(--tool-call-parser, /m);
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const parameters = {
      type: 'object',
      properties: { a: { type: 'boolean' }, b: { $ref: '#/$defs/unit' } },
      required: ['a', 'b'],
      additionalProperties: false,
      $defs: { unit: { enum: ['x', 'y'] } },
    };
    const tools = [
      { type: 'function' as const, function: { name: 'set', parameters } },
      { type: 'function' as const, function: { name: 'now' } },
    ];
    const asked = { model: 'my-model', messages: [USER], tools, max_tokens: 200, parallel_tool_calls: false };
    const only = { type: 'function' as const, function: { name: 'set' } };
    for (const tool_choice of ['required' as const, only]) {
      const { choices } = await openai.chat.completions.create({ ...asked, tool_choice, n: 3, seed: 1 });
      for (const { message, finish_reason } of choices) {
        expect([finish_reason, message.tool_calls?.length]).toEqual(['tool_calls', 1]);
        const [call] = message.tool_calls as { function: { name: string; arguments: string } }[];
        const args = JSON.parse(call.function.arguments) as { a: unknown; b: unknown };
        if (call.function.name === 'now') expect(args).toEqual({});
        else expect([typeof args.a, ['x', 'y'].includes(args.b as string)]).toEqual(['boolean', true]);
      }
    }
  });

  it.skipIf(isQuick).each<[string, RandomModel, string]>([
    ['a sliding window', { architecture: 'gemma3', window: 32 }, 'on'],
    ['states', { architecture: 'mamba' }, 'off'],
    ['states and attention', { architecture: 'lfm2' }, 'off'],
  ])(
    'serves a model with %s: equal seeds give equal texts, alone and among others',
    async (_, model, cache) => {
      const { said, ask } = await serveModel(modelFile(model), '--threads', '1', '--cache-type', 'f32');
      expect(said.stdout).toContain(`prefix cache ${cache}.`);
      const say = async (seed: number) => {
        const { choices } = await ask('/v1/chat/completions', { messages: [USER], max_tokens: 12, seed });
        return choices[0].message.content;
      };
      const alone = [await say(1), await say(2), await say(3)];
      expect(new Set(alone).size).toBe(3);
      expect(await Promise.all([say(1), say(2), say(3)])).toEqual(alone);
    },
  );

  it.each(share(['gpt2'] as const, ['gpt2', 'llama'] as const))(
    'has the vocabulary of the model: %s',
    async (vocabulary) => {
      const { ask, said } =
        vocabulary === 'gpt2' ? plain : await serveModel(modelFile({ vocabulary }), '--threads', '1');
      expect(said.stderr).not.toContain('ERR');
      const { tokens } = await ask('/tokenize', { prompt: TEXT });
      const begin = vocabulary === 'gpt2' ? 0 : 1;
      expect(tokens.filter((token) => token === begin)).toEqual([tokens[0]]);
      const back = await ask('/detokenize', { tokens });
      // Pieces of Llama 2 put a space in front of every text.
      expect((back as unknown as { prompt: string }).prompt.trimStart()).toBe(TEXT);
      const bare = await ask('/tokenize', { prompt: TEXT, add_special_tokens: false });
      expect(bare.tokens).toEqual(tokens.slice(1));
      // The template has a begin token of its own, and no second one is put in front.
      const chat = await ask('/tokenize', { messages: [USER] });
      expect(chat.tokens.filter((token) => token === begin)).toEqual([begin]);
      for (const end of endTokens(vocabulary)) {
        const body = { messages: [USER], max_tokens: 9, logit_bias: { [end]: 100 }, temperature: 0 };
        const { choices } = await ask('/v1/chat/completions', body);
        expect(choices[0]).toMatchObject({ message: { content: '' }, finish_reason: 'stop' });
        const ignoring = await ask('/v1/chat/completions', { ...body, ignore_eos: true });
        expect(ignoring.choices[0].finish_reason).toBe('length');
      }
    },
  );

  it('picks tokens as a request says', async () => {
    const { ask } = plain;
    const { tokens } = await ask('/tokenize', { prompt: 'x', add_special_tokens: false });
    const only = await ask('/v1/completions', {
      prompt: 'a',
      max_tokens: 5,
      temperature: 0,
      logit_bias: { [tokens[0]]: 100 },
      logprobs: 2,
    });
    expect(only.choices[0]).toMatchObject({ text: 'xxxxx', logprobs: { tokens: ['x', 'x', 'x', 'x', 'x'] } });
    // A bias is none of the model's own probabilities.
    for (const top of only.choices[0].logprobs!.top_logprobs!)
      expect((top as { x: number }).x).toBeLessThan(-0.01);
    const greedy = { prompt: 'once upon a time', max_tokens: 16, temperature: 0 };
    const first = await ask('/v1/completions', greedy);
    expect((await ask('/v1/completions', { ...greedy, temperature: 2, top_k: 1 })).choices).toEqual(
      first.choices,
    );
    const hot = await ask('/v1/completions', {
      ...greedy,
      temperature: 2,
      top_k: 0,
      top_p: 1,
      min_p: 0,
      n: 2,
    });
    expect(hot.choices[0].text).not.toBe(hot.choices[1].text);
  });

  it('gives what OpenAI’s own client parses by a schema of Zod', async () => {
    const openai = new OpenAI({ baseURL: `${plain.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const Step = z.object({
      says: z
        .string()
        .regex(/^[a-z ]*$/)
        .max(8),
      size: z.number().min(0).max(9.5).nullable(),
    });
    const schema = z.object({
      steps: z.array(Step).min(1).max(2),
      at: z.iso.date(),
      id: z.uuid(),
      is: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('a'), count: z.int().positive().max(99) }),
        z.object({ kind: z.literal('b'), code: z.string().regex(/^[A-Z]{2}\d$/) }),
      ]),
    });
    for (let seed = 0; seed < 4; seed++) {
      const { choices } = await openai.chat.completions.parse({
        model: 'my-model',
        messages: [USER],
        temperature: 1.2,
        seed,
        max_tokens: 600,
        response_format: zodResponseFormat(schema, 'steps'),
      });
      // `parse` throws where the text is none of the schema's.
      expect([choices[0].finish_reason, choices[0].message.parsed?.steps.length]).toEqual([
        'stop',
        expect.any(Number),
      ]);
    }
  });

  it('says how likely an echoed prompt is, as evaluation harnesses ask', async () => {
    const { ask } = plain;
    const asked = { prompt: 'once upon a time', max_tokens: 1, temperature: 0, logprobs: 1, echo: true };
    const { choices } = await ask('/v1/completions', asked);
    const { tokens, token_logprobs, top_logprobs } = choices[0].logprobs!;
    const { tokens: ids } = await ask('/tokenize', { prompt: asked.prompt });
    expect([tokens!.length, token_logprobs!.length, token_logprobs![0], top_logprobs![0]]).toEqual([
      ids.length + 1,
      ids.length + 1,
      null,
      null,
    ]);
    for (const logprob of token_logprobs!.slice(1)) expect(logprob).toBeLessThan(0);
    // Nothing is taken from the cache, so it is the same again; and by itself.
    expect((await ask('/v1/completions', asked)).choices[0].logprobs).toEqual(choices[0].logprobs);
    const alone = await ask('/v1/completions', { ...asked, max_tokens: 0 });
    expect(alone.choices[0]).toMatchObject({ text: asked.prompt, finish_reason: 'length' });
    expect(alone.choices[0].logprobs!.token_logprobs).toEqual(token_logprobs!.slice(0, -1));
  });

  it('holds texts to a format, and refuses formats that it cannot heed', async () => {
    const { ask, post } = plain;
    const properties = {
      color: { enum: ['red', 'blue'] },
      sizes: { type: 'array', items: { type: 'integer' }, maxItems: 2 },
    };
    const schema = { type: 'object', properties, required: ['color', 'sizes'], additionalProperties: false };
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    const body = { messages: [USER], max_tokens: 200, response_format: format, n: 3 };
    const { choices } = await ask('/v1/chat/completions', body);
    for (const { message, finish_reason } of choices) {
      expect(finish_reason).toBe('stop');
      const { color, sizes } = JSON.parse(message.content) as { color: string; sizes: number[] };
      expect(['red', 'blue']).toContain(color);
      expect(sizes.length).toBeLessThanOrEqual(2);
    }
    const yes = { prompt: 'a', max_tokens: 20, grammar: 'root ::= "yes" | "no"', logit_bias: { 5: 100 } };
    expect(['yes', 'no']).toContain((await ask('/v1/completions', yes)).choices[0].text);
    for (const wrong of [
      {
        response_format: {
          type: 'json_schema',
          json_schema: { schema: { type: 'string', pattern: '\\ba' } },
        },
      },
      { grammar: 'root ::= (' },
    ]) {
      const response = await post('/v1/chat/completions', { ...body, response_format: undefined, ...wrong });
      expect(response.status).toBe(400);
    }
  });

  it.skipIf(isQuick)('drafts what stood in the prompt, and says what it says without', async () => {
    const file = modelFile();
    const without = await serveModel(file, '--threads', '1', '--cache-type', 'f32');
    const drafting = await serveModel(
      file,
      ...['--threads', '1', '--cache-type', 'f32', '--num-speculative-tokens', '3'],
    );
    const body = { prompt: 'a rose is a rose is a rose is', max_tokens: 40, temperature: 0 };
    const { choices } = await without.ask('/v1/completions', body);
    expect((await drafting.ask('/v1/completions', body)).choices).toEqual(choices);
    const metrics = await (await fetch(`${drafting.url}/metrics`)).text();
    expect(Number(/^vllm:spec_decode_num_draft_tokens_total\S* (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(
      0,
    );
  });

  it.skipIf(isQuick)(
    'says at the start what will not go well: no chats without a template, too many threads',
    async () => {
      const file = modelFile({ chatTemplate: null });
      const bare = await serveModel(file, '--threads', String(availableParallelism() + 1));
      expect(bare.said.stdout).toMatch(
        /^\d+ threads on \d+ processors? wait .*: without --threads blockstep picks a number that suits this machine\.$/m,
      );
      expect(bare.said.stdout).toMatch(
        /^Chats are refused\. The chat template of the model: it has none; send .*\. Give another with --chat-template\.$/m,
      );
      const { error } = await bare.ask('/v1/chat/completions', { messages: [USER] });
      expect(error).toMatchObject({ code: 'chat_template', message: expect.stringContaining('it has none') });
      const template = join(temporaryFolder(), 'template.jinja');
      writeFileSync(template, '{% for m in messages %}{{ m.content }}{% endfor %}');
      const given = await serveModel(file, '--threads', '1', '--chat-template', template);
      expect(given.said.stdout).not.toContain('wait for each other');
      expect(given.said.stdout).not.toContain('Chats are refused');
      const asked = await given.ask('/tokenize', { messages: [USER] });
      expect(asked.tokens).toEqual((await given.ask('/tokenize', { prompt: TEXT })).tokens);
    },
  );

  it.skipIf(isQuick)('takes what the command line says in place of what it would choose', async () => {
    const sizes = ['--ctx', '256', '--num-blocks', '65', '--block-size', '8', '--max-num-seqs', '3'];
    const { said, url } = await serveModel(
      // A Q8_0 block has 32 numbers, which is as many as a head must have.
      modelFile({ heads: 2, kvHeads: 1, weights: 'Q8_0' }),
      ...['--threads', '1', '--served-model-name', 'mine', '--cache-type', 'q8_0', '--attention', 'llama'],
      ...[...sizes, '--no-enable-prefix-caching', '--max-num-batched-tokens', '64'],
    );
    expect(said.stderr).not.toContain('ERR');
    expect(said.stdout).toMatch(/^Attention by llama\.cpp\.$/m);
    expect(said.stdout).toMatch(
      /^Context 256 tokens a request; KV cache 512 tokens, 0\.1 MiB as q8_0; at most 3 requests and 64 tokens a step; prefix cache off\.$/m,
    );
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: object[] };
    expect(data).toMatchObject([{ id: 'mine', max_model_len: 256 }]);
  });

  it('frees what a client leaves', async () => {
    const { url, post } = plain;
    const abort = new AbortController();
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'a', max_tokens: 4000, ignore_eos: true, stream: true }),
      signal: abort.signal,
    });
    await response.body!.getReader().read();
    abort.abort();
    const load = async () => (await fetch(`${url}/load`)).json() as Promise<{ server_load: number }>;
    let left = 1;
    await until(() => {
      void load().then(({ server_load }) => {
        left = server_load;
      });
      return left === 0;
    }, 'an idle server');
    expect((await post('/v1/completions', { prompt: 'b', max_tokens: 2 })).status).toBe(200);
  });

  it('is interrupted in the middle of answers: lets them end, takes no more, and ends', async () => {
    const { said, url, child, ended, post } = plain;
    const text = { prompt: 'a', ignore_eos: true, stream: true };
    // This one goes on until its client leaves, so that the server is there as long as it is looked at.
    const leaving = new AbortController();
    const long = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...text, max_tokens: 4000 }),
      signal: leaving.signal,
    });
    await long.body!.getReader().read();
    const answers = [150, 151, 152].map((max_tokens) => post('/v1/completions', { ...text, max_tokens }));
    const begun = await Promise.all(answers);
    child.kill('SIGTERM');
    await until(() => said.stderr.includes('ending: unfinished requests may finish'), 'the end');
    expect((await post('/v1/completions', { prompt: 'b', max_tokens: 2 })).status).toBe(503);
    for (const response of begun) {
      const events = await eventsOf(response);
      expect(events.at(-1)).toMatchObject({ choices: [{ finish_reason: 'length' }] });
    }
    leaving.abort();
    expect(await ended).toEqual([0, null]);
  });
});
