// The options for a model with its own tokenizer, template and grammars.
import { describe, expect, it } from 'vitest';
import {
  type LoadedModel,
  modelOptions,
  SAMPLING_DEFAULTS,
  type TextFormat,
} from '../../../src/serve/index.js';
import { ByteTokenizer, NotedGrammar } from './small-model.js';

const tokenizer = new ByteTokenizer();
const INFO = { architecture: 'bytes', vocabSize: 259, bosToken: 256, eosToken: 258, endTokens: [257, 258] };
const BARE: LoadedModel = {
  info: { ...INFO, chatTemplate: '{{ bos_token }}{{ eos_token }}' },
  tokenize: (text, { addSpecial, parseSpecial }) => tokenizer.tokenize(text, addSpecial, parseSpecial),
  piece: (token, special) => tokenizer.piece(token, special),
};
const CHAT = { messages: [], tools: null, beginsAnswer: true, templateArguments: {} };

describe('the options of a server for a model that brings its tokenizer', () => {
  it('have its vocabulary, whose first end is that of a text, its template and defaults of sampling', async () => {
    const { id, vocabulary, chatTemplate, sampling, samplingDefaults, grammar } = await modelOptions(BARE, {
      id: 'm',
    });
    expect([id, vocabulary!.name, vocabulary!.size]).toEqual(['m', 'bytes', 259]);
    expect([vocabulary!.endOfText, vocabulary!.endTokens]).toEqual([258, [257]]);
    expect([...vocabulary!.encode('a<|end|>')]).toEqual([256, 97, 258]);
    expect(await chatTemplate!.render(CHAT)).toBe('<s><|end|>');
    expect([sampling, samplingDefaults]).toEqual([
      expect.arrayContaining(['seed', 'logprobs']),
      SAMPLING_DEFAULTS,
    ]);
    expect(grammar).toBe(undefined);
  });

  it('may have another template and other defaults', async () => {
    const given = { id: 'm', chatTemplate: 'mine', samplingDefaults: { temperature: 0 } };
    const { chatTemplate, samplingDefaults } = await modelOptions(BARE, given);
    expect([await chatTemplate!.render(CHAT), samplingDefaults]).toEqual(['mine', { temperature: 0 }]);
  });

  it('do with a model that has neither begin nor end', async () => {
    const info = { ...INFO, bosToken: null, eosToken: null, endTokens: [], chatTemplate: null };
    const { vocabulary, chatTemplate } = await modelOptions({ ...BARE, info }, { id: 'm' });
    expect([vocabulary!.endOfText, vocabulary!.endTokens]).toEqual([259, []]);
    await expect(chatTemplate!.render(CHAT)).rejects.toThrow('it has none');
  });

  it('make grammars in the forms of the model', async () => {
    const forms: unknown[] = [];
    const grammarOf = (form: object) => {
      forms.push(form);
      return new NotedGrammar({ type: 'json_object' });
    };
    const { grammar } = await modelOptions({ ...BARE, grammar: grammarOf }, { id: 'm' });
    const schema = { type: 'string' };
    const formats: TextFormat[] = [
      { type: 'json_object' },
      { type: 'json_schema', schema },
      { type: 'gbnf', grammar: 'root ::= "a"' },
    ];
    const made = await Promise.all(formats.map((format) => grammar!(format)));
    // The same is asked for again and again, and takes long to make.
    expect(await grammar!({ type: 'json_schema', schema: { ...schema } })).toBe(made[1]);
    expect(forms).toEqual([{ json: true }, { jsonSchema: schema }, { gbnf: 'root ::= "a"' }]);
  });

  it('keep the grammars that were asked for last, and not all', async () => {
    let count = 0;
    const grammarOf = () => {
      count++;
      return new NotedGrammar({ type: 'json_object' });
    };
    const { grammar } = await modelOptions({ ...BARE, grammar: grammarOf }, { id: 'm' });
    const ask = (i: number) => grammar!({ type: 'gbnf', grammar: `root ::= "${i}"` });
    for (let i = 0; i < 40; i++) ask(i);
    ask(39);
    expect(count).toBe(40);
    ask(0);
    expect(count).toBe(41);
  });
});
