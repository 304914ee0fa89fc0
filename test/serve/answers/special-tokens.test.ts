// Markers that are special tokens, which have no text elsewhere.
import { describe, expect, it } from 'vitest';
import { AnswerForms } from '../../../src/serve/answers/answer-forms.js';
import { ModelVocabulary } from '../../../src/serve/index.js';
import { Detokenizer } from '../../../src/serve/text/detokenizer.js';
import { ByteTokenizer } from '../model/small-model.js';
import { readPieces, TOOLS } from './read.js';

/** One token for each byte, and one for each of these names, which is no text. */
class MarkerTokenizer extends ByteTokenizer {
  readonly #names: readonly string[];
  override readonly numTokens: number;

  constructor(names: readonly string[]) {
    super();
    this.#names = names;
    this.numTokens = 300 + names.length;
  }

  override tokenize(text: string, addsSpecial: boolean, knowsSpecial: boolean): Int32Array {
    const place = this.#names.map((name) => text.indexOf(name));
    const first = place.reduce((best, at, i) => (at >= 0 && (best < 0 || at < place[best]) ? i : best), -1);
    if (first < 0) return super.tokenize(text, addsSpecial, knowsSpecial);
    const before = super.tokenize(text.slice(0, place[first]), addsSpecial, knowsSpecial);
    const after = this.tokenize(text.slice(place[first] + this.#names[first].length), false, knowsSpecial);
    return Int32Array.from([...before, 300 + first, ...after]);
  }

  override piece(token: number, showsSpecial: boolean): Uint8Array {
    if (token < 300) return super.piece(token, showsSpecial);
    return Buffer.from(showsSpecial ? this.#names[token - 300] : '');
  }
}

function read(parsers: [string, string | null], names: readonly string[], prompt: string, answer: string) {
  const vocabulary = new ModelVocabulary('marked', new MarkerTokenizer(names));
  const forms = new AnswerForms(vocabulary, ...parsers);
  const reading = forms.reading({ tools: TOOLS, prompt: vocabulary.encode(prompt) })!;
  const detokenizer = new Detokenizer(reading.vocabulary);
  const pieces = Array.from(vocabulary.encode(answer, false), (token) => detokenizer.push(token));
  return readPieces((sink) => reading.open(sink), pieces);
}

describe('markers that are special tokens', () => {
  it('are seen by the form that has them, in calls and thoughts', () => {
    const names = ['[TOOL_CALLS]', '[ARGS]', '[THINK]', '[/THINK]', '[OTHER]'];
    const answer = '[THINK]hm[/THINK][OTHER]So:[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]now[ARGS]{}';
    expect(read(['mistral', 'mistral'], names, 'a', answer)).toEqual({
      content: 'So:',
      reasoning: 'hm',
      calls: [
        ['add', { a: 1 }],
        ['now', {}],
      ],
    });
  });

  it('are seen at the end of the prompt', () => {
    const read1 = read(['hermes', 'qwen3'], ['<think>', '</think>'], 'a<think>\n', 'hm</think>yes');
    expect(read1).toEqual({ content: 'yes', reasoning: 'hm', calls: [] });
  });

  it('are seen in the form of gpt-oss and of Gemma', () => {
    const harmony = ['<|channel|>', '<|message|>', '<|start|>', '<|end|>', '<|constrain|>'];
    const answer = '<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes';
    expect(read(['openai', null], harmony, 'a', answer)).toEqual({
      content: 'yes',
      reasoning: 'hm',
      calls: [],
    });
    const gemma = ['<|channel>', '<channel|>', '<|tool_call>', '<tool_call|>', '<|"|>'];
    const called = '<|channel>thought\nhm<channel|><|tool_call>call:write{text:<|"|>a<|"|>}<tool_call|>';
    expect(read(['gemma4', 'gemma4'], gemma, 'a', called)).toEqual({
      content: '',
      reasoning: 'hm',
      calls: [['write', { text: 'a' }]],
    });
  });
});
