// A model's own tokenizer as a vocabulary.
import { describe, expect, it } from 'vitest';
import { ModelVocabulary } from '../../../src/serve/index.js';
import { BYTES, ByteTokenizer } from './small-model.js';

describe('the vocabulary of a model', () => {
  it('begins a prompt with one begin token, also where its text has it already', () => {
    expect([...BYTES.encode('hi')]).toEqual([256, 104, 105]);
    expect([...BYTES.encode('<s>hi')]).toEqual([256, 104, 105]);
    expect([...BYTES.encode('hi', false)]).toEqual([104, 105]);
  });

  it('begins no prompt where the model has no such token', () => {
    const plain = new ModelVocabulary('plain', new ByteTokenizer(-1));
    expect([...plain.encode('hi')]).toEqual([104, 105]);
    expect([...plain.encode('')]).toEqual([]);
  });

  it('knows special tokens in a prompt', () => {
    expect([...BYTES.encode('a<|end|>b', false)]).toEqual([97, 258, 98]);
  });

  it('says which tokens end an answer, and these have no text', () => {
    expect([BYTES.endOfText, BYTES.endTokens]).toEqual([257, [258]]);
    expect([BYTES.textOf(257), BYTES.textOf(258), BYTES.textOf(256)]).toEqual(['', '', '']);
    expect(BYTES.specialText(258)).toBe('<|end|>');
  });

  it('has the text of a token, null for half a character, and nothing for no token', () => {
    expect([BYTES.textOf(104), BYTES.textOf(104)]).toEqual(['h', 'h']);
    expect([BYTES.textOf(0xc3), BYTES.textOf(-1), BYTES.textOf(259), BYTES.textOf(1.5)]).toEqual([
      null,
      null,
      null,
      null,
    ]);
    expect([...BYTES.bytesOf(0xc3)]).toEqual([0xc3]);
    expect([...BYTES.bytesOf(259)]).toEqual([0xef, 0xbf, 0xbd]);
    expect(BYTES.specialText(-1)).toBe('');
  });
});
