import { Random } from '../../../../src/base/random.js';

/** A command to a stage. */
export interface Command {
  readonly kind: 'add' | 'abort';
  readonly id: string;
  /** An abort that another thread delivers while a step is being planned. */
  readonly inside: boolean;
}

/** Of a hundred aborts so many arrive while a step is being planned. */
const INSIDE_PERCENT = 20;

/** The commands of the orchestrator to one stage: in order, each at a tick of its own. */
export class Commands {
  readonly #waiting: (Command & { readonly at: number })[] = [];
  readonly #random: Random;
  #last = 0;

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  /** Sends a command, which arrives up to three ticks later, and never before an earlier one. */
  send(kind: 'add' | 'abort', id: string, now: number): void {
    this.#last = Math.max(this.#last, now + this.#random.below(4));
    const inside = kind === 'abort' && this.#random.below(100) < INSIDE_PERCENT;
    this.#waiting.push({ kind, id, inside, at: this.#last });
  }

  /** Takes the commands that have arrived: those from inside a step, or those between steps, up to the first other one. */
  drain(now: number, inside: boolean): Command[] {
    const taken: Command[] = [];
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined || first.at > now || first.inside !== inside) return taken;
      this.#waiting.shift();
      taken.push(first);
    }
  }
}
