import type { OutputEnd, OutputRequest } from '../../../src/engine/outputs/engine-outputs.js';
import type { EngineOutputs, OutputsReader } from '../../../src/index.js';

/** The outputs of one request, as a reader of all outputs received them. */
export interface Heard {
  readonly id: string;
  readonly tokens: number[];
  readonly extras: unknown[];
  /** The ends of its answers, and its own. */
  readonly ends: OutputEnd[];
}

/** A reader of all outputs, which copies what it reads. */
export class Listener {
  readonly reader: OutputsReader;
  readonly byRequest = new Map<OutputRequest, Heard>();
  /** Rows of each item. */
  readonly items: number[] = [];
  /** How the outputs ended; null while they go on. */
  over: { readonly error: unknown } | null = null;

  constructor(reader: OutputsReader) {
    this.reader = reader;
  }

  /** Reads until the outputs are over. */
  async readAll(): Promise<void> {
    try {
      for await (const outputs of this.reader) this.receive(outputs);
      this.over = { error: null };
    } catch (error) {
      this.over = { error };
    }
  }

  /** Reads what is there, without waiting for more. */
  async readRest(): Promise<void> {
    let isWaiting = false;
    while (!isWaiting && this.over === null) {
      isWaiting = true;
      void this.readOne().then(() => {
        isWaiting = false;
      });
      for (let i = 0; i < 10; i++) await Promise.resolve();
    }
  }

  /** Reads one item, unless a call waits already. */
  async readOne(): Promise<void> {
    try {
      const { done, value } = await this.reader.next();
      if (done === true) this.over = { error: null };
      else this.receive(value);
    } catch (error) {
      this.over = { error };
    }
  }

  /** The outputs of requests with these ids, in the order of their first outputs. */
  of(...ids: string[]): Heard[] {
    return [...this.byRequest.values()].filter(({ id }) => ids.includes(id));
  }

  receive({ length, requests, tokens, tokenOffsets, extras, ends }: EngineOutputs): void {
    this.items.push(length);
    for (let row = 0; row < length; row++) {
      const request = requests[row];
      let heard = this.byRequest.get(request);
      if (heard === undefined) {
        heard = { id: request.id, tokens: [], extras: [], ends: [] };
        this.byRequest.set(request, heard);
      }
      const [from, to] = [tokenOffsets[row], tokenOffsets[row + 1]];
      heard.tokens.push(...tokens.subarray(from, to));
      if (extras !== null) heard.extras.push(...extras.slice(from, to));
      const end = ends[row];
      if (end !== null) heard.ends.push(end);
    }
  }
}
