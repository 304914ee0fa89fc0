// An answer that a grammar limits to calls.
import { describe, expect, it } from 'vitest';
import { LONGEST_CALL } from '../../../src/serve/answers/answer-reader.js';
import { ForcedReader } from '../../../src/serve/answers/forced-reader.js';
import { readPieces } from './read.js';

const read = (name: string | null, pieces: readonly string[]) =>
  readPieces((sink) => new ForcedReader(sink, name), pieces);

describe('an answer that is held to calls', () => {
  it('is one of them, or a list', () => {
    expect(read('add', ['{"a": 1,', ' "b": 2}']).calls).toEqual([['add', { a: 1, b: 2 }]]);
    expect(read(null, ['[{"name": "now", "parameters": {}}]']).calls).toEqual([['now', {}]]);
  });

  it('is text where it is too long to be read at once', () => {
    const piece = 'x'.repeat(4096);
    const begin = '{"note": "';
    const pieces = [begin, ...Array<string>(LONGEST_CALL / 4096).fill(piece), '"}'];
    expect(read('add', pieces)).toEqual({ content: pieces.join(''), reasoning: '', calls: [] });
    // A text that is not longer is a call.
    const { calls } = read('add', [begin, 'x'.repeat(LONGEST_CALL - begin.length - 2), '"}']);
    expect(calls).toHaveLength(1);
  });
});
