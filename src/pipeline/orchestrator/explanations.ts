import { show } from '../../base/errors.js';
import type { RequestKey } from '../transport/messages.js';
import type { PipelineRequest } from './pipeline-request.js';

/** Maximum milliseconds for a stage to explain what a request waits for. */
const PATIENCE_MS = 1000;

interface Question {
  readonly dueAt: number;
  readonly resolve: (text: string | null) => void;
}

/**
 * Asks a stage of this process about a request. Null: the stage does not know the request;
 * undefined: the stage is in another process.
 */
export type AskHere = (stage: number, key: RequestKey) => string | null | undefined;

/**
 * Explains what requests wait for in each stage. Stages in other processes are asked, and may not
 * answer.
 */
export class Explanations {
  readonly #names: readonly string[];
  readonly #send: (stage: string, key: RequestKey, ask: number) => void;
  readonly #now: () => number;
  /** Open questions, in the order in which they are due. */
  readonly #open = new Map<number, Question>();
  #last = 0;

  /**
   * @param names of the stages
   * @param send asks a stage in another process
   */
  constructor(
    names: readonly string[],
    now: () => number,
    send: (stage: string, key: RequestKey, ask: number) => void,
  ) {
    this.#names = names;
    this.#now = now;
    this.#send = send;
  }

  /** Describes what a request waits for in each stage. */
  async explain(request: PipelineRequest, askHere: AskHere): Promise<string> {
    const told = this.#names.map((name, stage) => {
      if (request.hasEndedIn(stage)) return request.describe(stage);
      const here = askHere(stage, request.key);
      return here === undefined ? this.#askThere(name, stage, request) : (here ?? request.describe(stage));
    });
    const words = await Promise.all(told);
    return `request ${show(request.id)}: ${words.map((text, i) => `${this.#names[i]}: ${text}`).join('; ')}`;
  }

  /** An answer has arrived. Late answers are dropped. */
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

  async #askThere(name: string, stage: number, request: PipelineRequest): Promise<string> {
    const ask = ++this.#last;
    const text = new Promise<string | null>((resolve) => {
      this.#open.set(ask, { dueAt: this.#now() + PATIENCE_MS, resolve });
    });
    this.#send(name, request.key, ask);
    return (await text) ?? `${request.describe(stage)}; the stage does not answer`;
  }

  /** When the next question is given up, in milliseconds of the clock; Infinity: none is open. */
  get nextDeadline(): number {
    const [first] = this.#open.values();
    return first?.dueAt ?? Number.POSITIVE_INFINITY;
  }
}
