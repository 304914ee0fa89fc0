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
 * Computes the requests of an autoregressive stage (vllm-omni's `OmniARScheduler`). Each request is
 * a session of the engine. A chunk continues the text so far, without the last token of the last
 * answer. The KV of the text is kept.
 *
 * A request whose chunk has not arrived is a session without input. It is in no queue that a step
 * looks at.
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
  /**
   * Whether the end of the input ended the session, because its last answer had ended before, or
   * there was none.
   */
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
        // The end of a waiting session carries no information, and the end of an aborted session is
        // no end of an answer.
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
