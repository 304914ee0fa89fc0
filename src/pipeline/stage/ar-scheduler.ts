import type { Engine } from '../../engine/engine.js';
import type { RequestStream } from '../../engine/streams/request-stream.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import {
  abortedByEngine,
  endOf,
  type StageScheduler,
  type Work,
  type WorkEvents,
  type WorkInput,
} from './stage-scheduler.js';

/**
 * Computes the requests of an autoregressive stage (vllm-omni's `OmniARScheduler`): each is a session of the engine. A chunk goes
 * on from the text so far, without the last token of the last answer; the KV of the text stays.
 *
 * A request whose chunk has not come is a session without input: it stands in none of the queues that a step looks at.
 */
export class ArScheduler implements StageScheduler {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  begin({ id, prompt, isFed, fields }: WorkInput, events: WorkEvents): Work {
    const { maxTokens = 16 } = fields;
    const stream = this.#engine.submit({ ...fields, maxTokens, id, prompt, resumable: isFed });
    return new Session(this.#engine, stream, events);
  }
}

class Session implements Work {
  readonly #engine: Engine;
  readonly #stream: RequestStream;
  #isOver = false;
  /** Whether the end of the input has ended it: its last answer had ended before, or there was none. */
  #wasWaiting = false;

  constructor(engine: Engine, stream: RequestStream, events: WorkEvents) {
    this.#engine = engine;
    this.#stream = stream;
    void this.#read(events);
  }

  feed(input: ChunkInput): void {
    this.#stream.addChunk(input);
  }

  end(): void {
    this.#wasWaiting = this.#stream.endInput() === 'ended';
  }

  abort(): void {
    this.#isOver = true;
    this.#stream.abort();
  }

  explain(): string {
    return this.#engine.explain(this.#stream.handle);
  }

  async #read(events: WorkEvents): Promise<void> {
    try {
      let isAnswered = false;
      for await (const output of this.#stream) {
        const { tokens, finishReason } = output;
        // The end of a session that waited says nothing new, and that of an aborted one is no end of an answer.
        const isEmpty = tokens.length === 0 && (isAnswered || finishReason === 'abort');
        if (this.#isOver || isEmpty) continue;
        isAnswered = finishReason !== null;
        events.output(finishReason === 'abort' ? { ...output.toJSON(), finishReason: null } : output);
      }
      const result = await this.#stream.result();
      if (this.#isOver) return;
      this.#isOver = true;
      if (result.finishReason !== 'abort') events.ended(endOf(result));
      else if (this.#wasWaiting) events.ended({ ...endOf(result), finishReason: 'stop' });
      else events.failed(abortedByEngine());
    } catch (error) {
      if (!this.#isOver) events.failed(error);
    }
    this.#isOver = true;
  }
}
