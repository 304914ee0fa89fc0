// The outputs of each client.
import type { RequestResult, RequestStream } from 'blockstep';
import type { WorkItem } from './proof-work.js';

/** The tokens and the end of one answer, as a reader got them. */
export interface ReadAnswer {
  readonly tokens: number[];
  readonly extras: unknown[];
  reason: string | null;
  continues: boolean;
}

/** One request as its client sees it: it reads all that comes, and remembers what it did to the request. */
export class Client {
  readonly item: WorkItem;
  readonly stream: RequestStream;
  readonly answers: ReadAnswer[] = [{ tokens: [], extras: [], reason: null, continues: false }];
  nextTurn = 1;
  inputEnded = false;
  aborted = false;
  readError: unknown = null;
  resultError: unknown = null;
  result: RequestResult | null = null;
  done = false;

  constructor(item: WorkItem, stream: RequestStream) {
    this.item = item;
    this.stream = stream;
    void this.#read();
  }

  get failed(): boolean {
    return this.readError !== null || this.resultError !== null;
  }

  abort(reason?: unknown): void {
    if (this.stream.ended) return;
    this.aborted = true;
    this.stream.abort(reason);
  }

  /** Gives the session its next chunk, or ends its input. */
  goOn(): void {
    const turn = this.item.turns[this.nextTurn];
    if (turn !== undefined) {
      this.nextTurn++;
      this.stream.addChunk({
        prompt: turn.prompt,
        ...turn.stops,
        ...(turn.keepsParams ? {} : { params: { seed: turn.seed } }),
      });
    } else if (this.item.resumable && !this.inputEnded) {
      this.inputEnded = true;
      this.stream.endInput();
    }
  }

  async #read(): Promise<void> {
    try {
      for await (const output of this.stream) {
        const answer = this.answers.at(-1);
        if (answer === undefined) throw new Error('no answer is open');
        answer.tokens.push(...output.tokens);
        if (output.extras !== null) answer.extras.push(...output.extras);
        if (output.finishReason === null) continue;
        answer.reason = output.finishReason;
        answer.continues = output.continues;
        if (output.continues) this.answers.push({ tokens: [], extras: [], reason: null, continues: false });
      }
    } catch (error) {
      this.readError = error;
    }
    try {
      this.result = await this.stream.result();
    } catch (error) {
      this.resultError = error;
    }
    this.done = true;
  }
}
