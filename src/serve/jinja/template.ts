import { segmentsOf } from './lexer.js';
import type { Statement } from './macros.js';
import { Output, Scope } from './scope.js';
import { Statements } from './statements.js';
import { timeText } from './values/format.js';
import { type Limits, Run } from './values/run.js';
import { TemplateError } from './values/template-error.js';
import { Callable, fromJs, Namespace, numberOf, str, typeName, type Value } from './values/values.js';

/** The default limits of a rendering: steps and output characters. */
const LIMITS: Limits = { steps: 10_000_000, output: 2 ** 26 };
/** The maximum number of items of `range`, as in Jinja's sandbox. */
const LONGEST_RANGE = 100_000;

/**
 * A Jinja template, rendered as Hugging Face's library renders chat templates. Values follow
 * Python, blocks leave no lines, and there are loop controls, `{% do %}`, `tojson`, `strftime_now`
 * and `raise_exception`. A template can reach only the values that it is given, and its rendering
 * ends within the limits.
 */
export class Template {
  /**
   * Descriptions of filters and tests that the template names but that do not exist. Evaluating
   * them fails.
   */
  readonly missing: readonly string[];
  readonly #body: Statement;

  /** @throws TemplateError for a template that cannot be parsed */
  constructor(source: string) {
    const missing = new Set<string>();
    this.#body = new Statements(segmentsOf(source), missing).all();
    this.missing = [...missing];
  }

  /**
   * Renders the template with these values.
   * @throws TemplateError where Python raises an error, for `raise_exception`, and when a limit is
   * exceeded
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
      // The depth of the stack depends on the nesting of the template.
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
