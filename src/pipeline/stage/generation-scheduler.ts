import type { Engine } from '../../engine/engine.js';
import { parseChunk } from '../../scheduler/calls/parse-request.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import {
  abortedByEngine,
  endOf,
  type StageScheduler,
  type Work,
  type WorkEnd,
  type WorkEvents,
  type WorkInput,
} from './stage-scheduler.js';

/**
 * Computes the requests of a generation stage (vllm-omni's `OmniGenerationScheduler`). Each input
 * is a separate request of the engine, computed whole, in one step. The answer is one token and the
 * executor's extra value. Its blocks are released in that step. Between two chunks, a request
 * therefore holds nothing, and is in no queue.
 */
export class GenerationScheduler implements StageScheduler {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  begin(input: WorkInput, events: WorkEvents): Work {
    return new Pieces(this.#engine, input, events);
  }
}

/** The consecutive inputs of one request. */
class Pieces implements Work {
  readonly #engine: Engine;
  readonly #input: WorkInput;
  readonly #events: WorkEvents;
  /**
   * Inputs that wait for the previous one. They are few, because the previous stage sends only a
   * limited number of chunks ahead.
   */
  readonly #queue: ChunkInput[] = [];
  /** Aborts the input that is being computed; null: none is. */
  #abort: (() => void) | null = null;
  #handle = -1;
  #isComplete: boolean;
  #isOver = false;
  #number = 0;
  #end: WorkEnd | null = null;

  /** @throws the errors of `Engine.submit` for the prompt */
  constructor(engine: Engine, input: WorkInput, events: WorkEvents) {
    this.#engine = engine;
    this.#input = input;
    this.#events = events;
    this.#isComplete = !input.isFed;
    if (input.prompt.length > 0) this.#compute({ prompt: input.prompt });
  }

  feed(input: ChunkInput): void {
    // The input is checked like a chunk of a session. Further fields of `Engine.submit` are refused
    // here.
    const { prompt, stops, params } = parseChunk(input);
    const taken = { prompt, ...stops, ...(params === undefined ? {} : { params }) };
    if (this.#abort === null) this.#compute(taken);
    else this.#queue.push(taken);
  }

  end(): void {
    this.#isComplete = true;
    if (this.#abort === null) this.#conclude();
  }

  abort(): void {
    this.#isOver = true;
    this.#queue.length = 0;
    this.#abort?.();
  }

  explain(): string {
    return this.#abort === null ? 'has nothing to compute' : this.#engine.explain(this.#handle);
  }

  /** @throws the errors of `Engine.submit` */
  #compute(input: ChunkInput): void {
    const { id, fields } = this.#input;
    const { maxTokens: _one, ...given } = input;
    const stream = this.#engine.submit({ ...fields, ...given, maxTokens: 1, id: `${id}.${++this.#number}` });
    this.#handle = stream.handle;
    this.#abort = () => stream.abort();
    void this.#read(stream);
  }

  async #read(stream: ReturnType<Engine['submit']>): Promise<void> {
    try {
      const result = await stream.result();
      if (this.#isOver) return;
      if (result.finishReason === 'abort') throw abortedByEngine();
      const before = this.#end;
      // The engine reports `length`, because only one token was requested.
      const end: WorkEnd = { ...endOf(result), finishReason: 'stop', stopReason: null };
      this.#end = before === null ? end : joined(before, end);
      this.#abort = null;
      const { tokens, extras } = result;
      const { numOutputTokens } = this.#end;
      this.#events.output({ tokens, extras, numOutputTokens, ...WHOLE });
      // The handler of the output may have aborted the request.
      if (!this.#isOver) this.#next();
    } catch (error) {
      if (!this.#isOver) this.#events.failed(error);
      this.#isOver = true;
    }
  }

  #next(): void {
    const next = this.#queue.shift();
    if (next !== undefined) this.#compute(next);
    else if (this.#isComplete) this.#conclude();
  }

  #conclude(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.ended(this.#end ?? NOTHING);
  }
}

/** The end of the answer to each input: the whole input was computed. */
const WHOLE = { finishReason: 'stop', continues: true, stopReason: null } as const;

/** The end of a request without any input to compute. */
const NOTHING: WorkEnd = {
  ...{ finishReason: 'stop', stopReason: null, numPromptTokens: 0, numOutputTokens: 0 },
  ...{ numCachedTokens: 0, numPreemptions: 0 },
};

function joined(before: WorkEnd, last: WorkEnd): WorkEnd {
  return {
    ...last,
    numPromptTokens: before.numPromptTokens + last.numPromptTokens,
    numOutputTokens: before.numOutputTokens + last.numOutputTokens,
    numPreemptions: before.numPreemptions + last.numPreemptions,
  };
}
