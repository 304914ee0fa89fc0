import { segmentsOf } from './lexer.js';
import type { Statement } from './macros.js';
import { Output, Scope } from './scope.js';
import { Statements } from './statements.js';
import { timeText } from './values/format.js';
import { type Limits, Run } from './values/run.js';
import { TemplateError } from './values/template-error.js';
import { Callable, fromJs, Namespace, numberOf, str, typeName, type Value } from './values/values.js';

/** Steps and characters of a rendering, unless others are given. */
const LIMITS: Limits = { steps: 10_000_000, output: 2 ** 26 };
/** Most items of `range`, as in Jinja's sandbox. */
const LONGEST_RANGE = 100_000;

/**
 * A template in Jinja, as Hugging Face's library renders templates of chats: values are Python's, blocks leave no lines, and there are loop
 * controls, `{% do %}`, `tojson`, `strftime_now` and `raise_exception`. It reaches nothing but what it is given, and ends within its limits.
 */
export class Template {
  /** Filters and tests that the template names and that there are not, in words: what needs them fails. */
  readonly missing: readonly string[];
  readonly #body: Statement;

  /** @throws TemplateError for a template that cannot be read */
  constructor(source: string) {
    const missing = new Set<string>();
    this.#body = new Statements(segmentsOf(source), missing).all();
    this.missing = [...missing];
  }

  /**
   * Writes the template with these values.
   * @throws TemplateError for what Python raises too, what `raise_exception` says, and a template that goes on and on
   */
  render(values: Readonly<Record<string, unknown>>, limits: Limits = LIMITS): string {
    const run = new Run(limits);
    const globals = new Scope(run, null);
    for (const each of globalsOf(run)) globals.set(each.name, each);
    for (const [name, value] of Object.entries(values)) globals.set(name, fromJs(value));
    const output = new Output(run);
    try {
      this.#body(globals.inner(), output);
    } catch (error) {
      // The stack is as deep as the template is.
      if (error instanceof RangeError) throw new TemplateError('the template is nested too deep');
      throw error;
    }
    return output.text();
  }
}

function globalsOf(run: Run): readonly Callable[] {
  return [
    new Callable('range', (args) => rangeOf(args, run)),
    new Callable('namespace', (args, named) => new Namespace(dictOf(args, named))),
    new Callable('dict', dictOf),
    new Callable('raise_exception', ([message]) => {
      throw new TemplateError(str(message ?? 'the template refuses the chat'));
    }),
    new Callable('strftime_now', ([format]) => timeText(new Date(), str(format))),
  ];
}

function dictOf([first]: readonly Value[], named: ReadonlyMap<string, Value>): Map<Value, Value> {
  return new Map<Value, Value>([...(first instanceof Map ? first : []), ...named]);
}

function rangeOf(args: readonly Value[], run: Run): Value {
  const [first, second, third] = args.map((each) => {
    const number = numberOf(each);
    if (number === null)
      throw new TemplateError(`'${typeName(each)}' object cannot be interpreted as an integer`);
    return number;
  });
  const [from, to, step] = second === undefined ? [0, first ?? 0, 1] : [first, second, third ?? 1];
  if (step === 0) throw new TemplateError('range() arg 3 must not be zero');
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (length > LONGEST_RANGE)
    throw new TemplateError(`range too big: ${length} items, and there may be ${LONGEST_RANGE}`);
  run.step(length);
  return Array.from({ length }, (_, i) => from + i * step);
}
