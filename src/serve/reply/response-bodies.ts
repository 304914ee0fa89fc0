import type { ReplyHead } from './bodies.js';
import type { Choice } from './choice.js';
import type { Usage } from './generation.js';

/** A response of OpenAI's responses API, and the events of a streamed one. Its one item is a message. */
export class ResponseBodies {
  readonly #head: ReplyHead;
  readonly #messageId: string;
  #sequence = 0;

  constructor(head: ReplyHead) {
    this.#head = head;
    this.#messageId = head.id.replace(/^resp_/, 'msg_');
  }

  /** The whole response. @param choice null: it goes on, or failed */
  whole(text: string, choice: Choice | null, usage: Usage | null, error: object | null = null): object {
    const { id, created, model } = this.#head;
    const isCut = choice?.end?.finishReason === 'length';
    const isWhole = choice?.end?.finishReason === 'stop';
    const ended = isWhole ? 'completed' : 'incomplete';
    return {
      id,
      object: 'response',
      created_at: created,
      status: error !== null ? 'failed' : choice === null ? 'in_progress' : ended,
      error,
      incomplete_details:
        choice === null || isWhole ? null : { reason: isCut ? 'max_output_tokens' : 'aborted' },
      model,
      output: choice === null ? [] : [this.#message(text, ended)],
      parallel_tool_calls: true,
      previous_response_id: null,
      store: false,
      tool_choice: 'auto',
      tools: [],
      usage: usage === null ? null : usageOf(usage),
    };
  }

  /** What a stream begins with. */
  begin(): string {
    const response = this.whole('', null, null);
    const at = this.#place();
    return (
      this.#event('response.created', { response }) +
      this.#event('response.in_progress', { response }) +
      this.#event('response.output_item.added', {
        output_index: 0,
        item: { ...this.#message('', 'in_progress'), content: [] },
      }) +
      this.#event('response.content_part.added', { ...at, part: textPart('') })
    );
  }

  delta(piece: string): string {
    return this.#event('response.output_text.delta', { ...this.#place(), delta: piece, logprobs: [] });
  }

  /** What a stream ends with. */
  end(text: string, choice: Choice, usage: Usage): string {
    const response = this.whole(text, choice, usage) as { status: string; output: object[] };
    const at = this.#place();
    return (
      this.#event('response.output_text.done', { ...at, text, logprobs: [] }) +
      this.#event('response.content_part.done', { ...at, part: textPart(text) }) +
      this.#event('response.output_item.done', { output_index: 0, item: response.output[0] }) +
      this.#event(`response.${response.status}`, { response })
    );
  }

  /** What a stream ends with that failed. @param error its code and message */
  fail(text: string, error: { readonly code: string | null; readonly message: string }): string {
    const { code, message } = error;
    return this.#event('response.failed', {
      response: this.whole(text, null, null, { code: code ?? 'server_error', message }),
    });
  }

  #message(text: string, status: string): object {
    return { type: 'message', id: this.#messageId, status, role: 'assistant', content: [textPart(text)] };
  }

  #place(): object {
    return { item_id: this.#messageId, output_index: 0, content_index: 0 };
  }

  #event(type: string, data: object): string {
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.#sequence++, ...data })}\n\n`;
  }
}

function textPart(text: string): object {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

function usageOf({ prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details }: Usage): object {
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: prompt_tokens_details,
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens,
  };
}
