import type { Run } from './values/run.js';
import { TemplateError } from './values/template-error.js';
import { itemsOf, Namespace, Undefined, type Value } from './values/values.js';

/** The output of a template. */
export class Output {
  readonly #parts: string[] = [];
  readonly #run: Run;
  #length = 0;

  constructor(run: Run) {
    this.#run = run;
  }

  write(text: string): void {
    this.#length += text.length;
    this.#run.fits(this.#length, text.length);
    this.#parts.push(text);
  }

  text(): string {
    return this.#parts.join('');
  }
}

/** Names and their values, which shadow those of the enclosing scope. */
export class Scope {
  readonly run: Run;
  readonly #around: Scope | null;
  readonly #values = new Map<string, Value>();

  constructor(run: Run, around: Scope | null) {
    this.run = run;
    this.#around = around;
  }

  inner(): Scope {
    return new Scope(this.run, this);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  get(name: string): Value {
    for (let scope: Scope | null = this; scope !== null; scope = scope.#around) {
      const value = scope.#values.get(name);
      if (value !== undefined) return value;
    }
    return new Undefined(`'${name}' is undefined`);
  }
}

/**
 * Assigns the items of a value to names, as `a, b = value` does. A name with a dot is an attribute
 * of a namespace.
 */
export function assign(scope: Scope, target: Target, value: Value): void {
  if (typeof target === 'string') {
    const [name, field] = target.split('.');
    if (field === undefined) scope.set(name, value);
    else fieldsOf(scope.get(name), name).set(field, value);
    return;
  }
  const items = itemsOf(value);
  if (items.length !== target.length)
    throw new TemplateError(`expected ${target.length} values to unpack, got ${items.length}`);
  for (const [i, each] of target.entries()) assign(scope, each, items[i]);
}

/** A name, or a tuple of names. */
export type Target = string | readonly Target[];

function fieldsOf(value: Value, name: string): Map<Value, Value> {
  if (value instanceof Namespace) return value.fields;
  throw new TemplateError(`cannot assign an attribute of ${name}: it is no namespace`);
}
