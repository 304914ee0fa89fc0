import type { AnswerReader, AnswerSink } from '../../../src/serve/answers/answer-reader.js';
import type { ToolSchemas } from '../../../src/serve/answers/forms/call-form.js';

/**
 * The parts of an answer: its text, the model's reasoning, and its calls with their arguments as
 * values.
 */
export interface Read {
  content: string;
  reasoning: string;
  calls: (readonly [string, unknown])[];
}

/** The schemas of some tools. */
export const TOOLS: ToolSchemas = new Map<string, Record<string, unknown>>([
  [
    'add',
    {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'number' }, note: { type: 'string' } },
    },
  ],
  ['now', { type: 'object', properties: {} }],
  [
    'write',
    {
      type: 'object',
      properties: {
        text: { type: 'string' },
        lines: { type: 'array' },
        last: { anyOf: [{ type: 'boolean' }, { type: 'null' }] },
        options: { type: 'object' },
      },
    },
  ],
]);

/** Reads an answer that comes in pieces. */
export function readPieces(open: (sink: AnswerSink) => AnswerReader, pieces: readonly string[]): Read {
  const read: Read = { content: '', reasoning: '', calls: [] };
  const reader = open({
    content: (text) => {
      read.content += text;
    },
    reasoning: (text) => {
      read.reasoning += text;
    },
    call: (call) => read.calls.push([call.name, JSON.parse(call.arguments)]),
  });
  for (const piece of pieces) reader.push(piece);
  reader.end();
  return read;
}

/** Reads an answer whole, by single characters and by pieces of seven; all of these must be read alike. */
export function readAlike(open: (sink: AnswerSink) => AnswerReader, text: string): Read {
  const whole = readPieces(open, [text]);
  for (const size of [1, 7]) {
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
    const read = readPieces(open, pieces);
    if (JSON.stringify(read) !== JSON.stringify(whole))
      throw new Error(`${size}: ${JSON.stringify(read)} is not ${JSON.stringify(whole)}`);
  }
  return whole;
}
