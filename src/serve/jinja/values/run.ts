import { TemplateError } from './template-error.js';

/** The limits of a rendering. */
export interface Limits {
  /** The number of evaluated nodes, plus the processed characters in thousands. */
  readonly steps: number;
  /** The number of output characters. */
  readonly output: number;
}

/** One rendering of a template, with its remaining budget. */
export class Run {
  #steps: number;
  #output: number;
  #depth = 0;

  constructor({ steps, output }: Limits) {
    this.#steps = steps;
    this.#output = output;
  }

  /** @param characters that are processed @throws TemplateError if the template takes too long */
  step(characters = 0): void {
    this.#steps -= 1 + characters / 1000;
    if (this.#steps < 0) throw new TemplateError('the template takes too many steps');
  }

  /**
   * Checks the length of a text that is about to be made.
   * @param length of the text
   * @param added the number of new characters in it
   * @throws TemplateError if the text would be too long
   */
  fits(length: number, added = length): void {
    if (length > this.#output) throw new TemplateError('the template writes too much');
    this.step(added);
  }

  /** Evaluates a macro within other macros. @throws TemplateError if they are nested too deep */
  nested<T>(make: () => T): T {
    if (++this.#depth > 100) throw new TemplateError('macros call each other too deep');
    try {
      return make();
    } finally {
      this.#depth--;
    }
  }
}
