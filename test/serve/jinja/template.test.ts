// Templates: values, white space, names, errors, limits.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Template } from '../../../src/serve/jinja/template.js';
import { isQuick } from '../../support/share.js';

/**
 * Templates, and the output of Jinja 3.1.6 for them in Python with the settings of Hugging Face's
 * library; null: it raises.
 */
const PYTHON = JSON.parse(readFileSync(new URL('python.json', import.meta.url), 'utf8')) as [
  string,
  string | null,
][];
const VALUES = { messages: [{ role: 'user', content: 'a</think>\n\nb' }], d: { a: 1 } };
const render = (source: string, values: object = VALUES): string =>
  new Template(source).render({ ...values });

describe('a template', () => {
  it.each(PYTHON)('writes what Python writes: %s', (source, text) => {
    if (text === null) expect(() => render(source)).toThrow();
    else expect(render(source)).toBe(text);
  });

  it.each([
    ['{% if true %}\n  a\n{% endif %}\nb', '  a\nb'],
    ['  {% if true %}a{% endif %}', 'a'],
    ['x {% if true %}a{% endif %}', 'x a'],
    ['a\n  {%+ if true %}b{% endif %}', 'a\n  b'],
    ['a {{- 1 -}} \n b', 'a1b'],
    ['a {#- no -#} b', 'ab'],
    ['{# a #}\nb\n', 'b'],
    ['a\r\nb', 'a\nb'],
    ['{%- raw -%} {{ a }} {%- endraw -%} b', '{{ a }}b'],
    ["{{ '}}' }}{{ {'a': {'b': 1}} }}", "}}{'a': {'b': 1}}"],
    ['{% generation %}a{% endgeneration %}', 'a'],
  ])('drops white space as it does: %j', (source, text) => {
    expect(render(source)).toBe(text);
  });

  it.each([
    ['{% set a = 1 %}{% for i in [1] %}{% set a = 2 %}{% endfor %}{{ a }}', '1'],
    ['{% set n = namespace(a=1) %}{% for i in [1] %}{% set n.a = 2 %}{% endfor %}{{ n.a }}', '2'],
    ['{% if true %}{% set a = 2 %}{% endif %}{{ a }}', '2'],
    ['{% macro f(x) %}{{ x }}{{ caller() }}{% endmacro %}{% call f(1) %}b{% endcall %}', '1b'],
    ['{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}', '3210'],
    ["{% macro f(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ f(none) }}{{ f(b=1, a=2) }}", 'Nonex21'],
    ['{% for a, b in [(1, 2)] if a == 1 %}{{ a }}{{ b }}{{ loop.length }}{% endfor %}', '121'],
    ['{% for x in missing %}{% else %}none{% endfor %}{{ missing }}', 'none'],
    ['{{ strftime_now("%d %b %Y") | length }}', '11'],
    ['{{ f(*[1, 2], **{"a": 3}) if f is defined else "no" }}', 'no'],
  ])('keeps its names as it does: %j', (source, text) => {
    expect(render(source)).toBe(text);
  });

  it.each([
    ["{{ raise_exception('roles must alternate') }}", 'roles must alternate'],
    ['{{ a.b }}', "'a' is undefined"],
    ['a\n{{ nope() }}', "'nope' is undefined"],
    ['{{ 1 | nope }}', "no filter named 'nope'"],
    ['{{ 1 + "a" }}', 'unsupported operand types'],
    ['{% if %}', 'line 1: unexpected %}'],
    ['a\n{% nope %}', 'line 2: unknown tag nope'],
    ['{% for a in b %}', '{% endfor %} is missing'],
    ['{% break %}', 'outside of a loop'],
    ['{{ "a }}', 'unexpected'],
    ['{# a', 'a comment does not end'],
  ])('says what is wrong: %j', (source, message) => {
    expect(() => render(source)).toThrow(message);
  });

  it('reads JSON, as templates for llama.cpp do', () => {
    const source =
      '{% set a = text | from_json %}{{ a }}{% for k, v in a.items() %}{{ k }}={{ v | tojson }}{% endfor %}';
    expect(render(source, { text: '{"a": [1, null, "x"]}' })).toBe("{'a': [1, None, 'x']}a=[1, null, \"x\"]");
    expect(() => render(source, { text: '{"a"' })).toThrow('from_json got invalid JSON: ');
    expect(() => render(source, { text: '['.repeat(5000) + ']'.repeat(5000) })).toThrow('too deep');
  });

  it('names what it needs that there is not, and does without where nobody needs it', () => {
    const template = new Template('{% if a %}{{ a | nope }}{{ a is odder }}{% endif %}b');
    expect(template.missing).toEqual(['the filter nope', 'the test odder']);
    expect(template.render({ a: 0 })).toBe('b');
  });

  it.each([
    ['{% for i in range(10**9) %}{% endfor %}', 'range too big'],
    // These templates take seconds.
    ...(isQuick
      ? []
      : [
          [
            '{% for i in range(10**5) %}{% for j in range(10**5) %}{% endfor %}{% endfor %}',
            'too many steps',
          ],
        ]),
    ['{% for i in range(10**5) %}{{ a }}{% endfor %}', 'writes too much'],
    ["{{ 'a' * 10**9 }}", 'writes too much'],
    ["{{ '%1000000000d' % 1 }}", 'a width may be at most'],
    ["{{ '{:>1000000000}'.format(1) }}", 'a width may be at most'],
    ["{{ ('a' * 10**6) | replace('a', 'b' * 10**6) }}", 'writes too much'],
    ["{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}", 'writes too much'],
    ['{{ [0] * 10**9 }}', 'writes too much'],
    [
      '{% set n = namespace(a=[1]) %}{% for i in range(99) %}{% set n.a = n.a + n.a %}{% endfor %}',
      'too many steps',
    ],
    [
      "{% set n = namespace(a='a') %}{% for i in range(99) %}{% set n.a = n.a ~ n.a %}{% endfor %}",
      'writes too much',
    ],
    ['{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', 'too deep'],
    ['{% set l = [] %}{% do l.append(l) %}{{ l }}', 'too deep'],
    ['{% set l = [] %}{% do l.append(l) %}{{ l | tojson }}', 'too deep'],
    [`{{ ${'('.repeat(5000)}1${')'.repeat(5000)} }}`, 'too deep'],
    [`{{ ${'not '.repeat(5000)}1 }}`, 'too deep'],
    [`{{ ${'-'.repeat(5000)}1 }}`, 'too deep'],
    [`${'{% if a %}'.repeat(5000)}`, 'too deep'],
  ])('ends, whatever it asks for: %#', (source, message) => {
    expect(() => render(source, { a: 'a'.repeat(2 ** 20) })).toThrow(message);
  });

  it('reaches nothing of JavaScript', () => {
    for (const name of ['constructor', '__proto__', 'prototype', 'toString', 'call'])
      for (const of of ["''", '[]', '{}', '1', 'range', 'namespace()', 'loop', 'd'])
        expect(
          render(
            `{{ ${of}.${name} is defined }}{{ ${of}['${name}'] is defined }}`
              .replaceAll('loop.', 'd.')
              .replaceAll('loop[', 'd['),
          ),
        ).toBe('FalseFalse');
    expect(render('{{ constructor is defined }}{{ __proto__ is defined }}')).toBe('FalseFalse');
  });
});
