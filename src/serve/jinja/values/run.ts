import { TemplateError } from './template-error.js';

/** What a rendering may take. */
export interface Limits {
  /** Nodes that are evaluated, and thousands of characters that are handled. */
  readonly steps: number;
  /** Characters that are written. */
  readonly output: number;
}

/** One rendering of a template: what it has taken of what it may take. */
export class Run {
  #steps: number;
  #output: number;
  #depth = 0;

  constructor({ steps, output }: Limits) {
    this.#steps = steps;
    this.#output = output;
  }

  /** @param characters that are handled @throws TemplateError if the template takes too long */
  step(characters = 0): void {
    this.#steps -= 1 + characters / 1000;
    if (this.#steps < 0) throw new TemplateError('the template takes too many steps');
  }

  /** @param length of a text @param added characters of it that are new @throws TemplateError if it would be too long */
  fits(length: number, added = length): void {
    if (length > this.#output) throw new TemplateError('the template writes too much');
    this.step(added);
  }

  /** Evaluates a macro within others. @throws TemplateError if they are too many */
  nested<T>(make: () => T): T {
    if (++this.#depth > 100) throw new TemplateError('macros call each other too deep');
    try {
      return make();
    } finally {
      this.#depth--;
    }
  }
}
