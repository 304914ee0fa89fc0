import { type CallForm, type ReadCall, TOOL_NAME } from './call-form.js';
import { knownCalls } from './json-forms.js';
import { MOST_CALLS } from './json-values.js';
import { ValueText } from './value-text.js';

/**
 * `[NAME(key='text', other=1)]`, a list of calls in Python's syntax, or JSON instead: Llama 4,
 * LFM2.
 */
export const PYTHON: CallForm = {
  markers: [
    { begin: '<|tool_call_start|>', end: '<|tool_call_end|>' },
    { begin: '<|python_start|>', end: '<|python_end|>' },
    { begin: '<|python_tag|>', end: null },
  ],
  bare: /^\s*(?:\[\s*[\w.:-]+\(|\[?\s*\{\s*"(?:name|type|function)")/,
  read(body, tools) {
    const text = body.trim();
    if (/^\[?\s*\{/.test(text)) return knownCalls(text, tools);
    const calls = new PythonText(text).calls();
    // Without markers, a list of calls may be some other list.
    return calls.every(({ name }) => tools.has(name)) ? calls : null;
  },
};

const CONSTANTS: Readonly<Record<string, boolean | null>> = {
  True: true,
  False: false,
  None: null,
  true: true,
  false: false,
  null: null,
};
const NUMBER = /[-+]?(?:\d[\d_]*)?(?:\.\d*)?(?:[eE][-+]?\d+)?/y;
const WORD = /[\w.:-]+/y;
const PLAIN = { "'": /[^'\\]*/y, '"': /[^"\\]*/y };
const ESCAPE = /\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|\n)/y;
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  b: '\b',
  f: '\f',
  '\n': '',
  '\\': '\\',
  "'": "'",
  '"': '"',
};

/** Parses function calls with values in Python's syntax. Malformed text throws. */
class PythonText extends ValueText {
  calls(): readonly ReadCall[] {
    const calls: ReadCall[] = [];
    const call = (): void => {
      if (calls.length === MOST_CALLS) throw new Error('too many calls');
      calls.push(this.#call());
    };
    if (this.text.startsWith('[')) this.items('[', ']', call);
    else call();
    this.space();
    if (!this.isAtEnd || calls.length === 0) throw new Error('expected calls alone');
    return calls;
  }

  #call(): ReadCall {
    const name = this.match(WORD);
    if (!TOOL_NAME.test(name)) throw new Error('expected a name');
    const values = this.object('(', ')', () => {
      const key = this.match(WORD);
      this.expect('=');
      if (key === '') throw new Error('expected the name of an argument');
      return key;
    });
    return { name, arguments: JSON.stringify(values) };
  }

  protected value(): unknown {
    this.space();
    const letter = this.text[this.at];
    if (letter === "'" || letter === '"') return this.#string(letter);
    if (letter === '[') return this.list('[', ']');
    if (letter === '(') return this.list('(', ')');
    if (letter === '{') {
      return this.object('{', '}', () => {
        const key = String(this.value());
        this.expect(':');
        return key;
      });
    }
    const number = this.match(NUMBER);
    if (/\d/.test(number)) {
      const value = Number(number.replaceAll('_', ''));
      if (!Number.isFinite(value)) throw new Error('expected a number that JSON has');
      return value;
    }
    const word = this.match(WORD);
    if (number !== '' || !Object.hasOwn(CONSTANTS, word)) throw new Error('expected a value');
    return CONSTANTS[word];
  }

  #string(quote: "'" | '"'): string {
    this.at++;
    const pieces: string[] = [];
    for (;;) {
      pieces.push(this.match(PLAIN[quote]));
      if (this.text[this.at] === quote) break;
      const written = this.match(ESCAPE);
      if (written === '') throw new Error('a text does not end');
      const hex = written.length > 3 ? Number.parseInt(written.slice(2), 16) : null;
      // Python leaves an unknown escape sequence unchanged.
      pieces.push(hex === null ? (ESCAPES[written[1]] ?? written) : String.fromCodePoint(hex));
    }
    this.at++;
    return pieces.join('');
  }
}
