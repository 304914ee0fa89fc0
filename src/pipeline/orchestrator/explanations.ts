/** Milliseconds within which a stage has to say what a request waits for. */
const PATIENCE_MS = 1000;

interface Question {
  readonly dueAt: number;
  readonly resolve: (text: string | null) => void;
}

/** Questions to stages elsewhere about what a request waits for. */
export class Explanations {
  readonly #now: () => number;
  /** In the order in which they are due. */
  readonly #open = new Map<number, Question>();
  #last = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Opens a question. @returns its number, and the answer; null if none came in time */
  ask(): { readonly ask: number; readonly text: Promise<string | null> } {
    const ask = ++this.#last;
    const text = new Promise<string | null>((resolve) => {
      this.#open.set(ask, { dueAt: this.#now() + PATIENCE_MS, resolve });
    });
    return { ask, text };
  }

  /** An answer has come; late ones are dropped. */
  answer(ask: number, text: string): void {
    this.#open.get(ask)?.resolve(text);
    this.#open.delete(ask);
  }

  /** Gives up the questions that were open for too long. */
  expire(): void {
    for (const [ask, { dueAt, resolve }] of this.#open) {
      if (dueAt > this.#now()) return;
      this.#open.delete(ask);
      resolve(null);
    }
  }

  /** When the next question is given up, in milliseconds of the clock; Infinity: none is open. */
  get nextDeadline(): number {
    const [first] = this.#open.values();
    return first?.dueAt ?? Number.POSITIVE_INFINITY;
  }
}
