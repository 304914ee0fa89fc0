import type { ReplyHead } from '../reply/bodies.js';
import type { Choice } from '../reply/choice.js';
import type { Usage } from '../reply/generation.js';
import type { ToolCall } from '../reply/read-answer.js';

/** A kind of item with text: the name of its part, and the prefix of its ids. */
const KINDS = {
  message: { part: 'output_text', prefix: 'msg' },
  reasoning: { part: 'reasoning_text', prefix: 'rs' },
} as const;

/** An item whose text is still being generated. */
interface OpenItem {
  readonly kind: keyof typeof KINDS;
  readonly id: string;
  text: string;
}

/**
 * A response with one choice of OpenAI's responses API, and the events of a streamed response. Its
 * items are reasoning, text and tool calls, in the order in which they came.
 */
export class ResponseBodies {
  readonly #head: ReplyHead;
  readonly #items: object[] = [];
  #open: OpenItem | null = null;
  #sequence = 0;

  constructor(head: ReplyHead) {
    this.#head = head;
  }

  /** The beginning of a stream. */
  begin(): string {
    const response = this.#response('in_progress', {});
    return this.#event('response.created', { response }) + this.#event('response.in_progress', { response });
  }

  /** Drains what has come of the choice. @returns its events */
  drain(choice: Choice): string {
    const piece = choice.drainText();
    const { reasoning = '', calls = [] } = choice.drainParts() ?? {};
    let events = '';
    if (reasoning !== '') events += this.#say('reasoning', reasoning);
    if (piece !== '') events += this.#say('message', piece);
    for (const call of calls) events += this.#call(call);
    return events;
  }

  /** The whole response, of a choice that has ended and was drained. */
  whole(choice: Choice, usage: Usage): object {
    this.#finish(choice);
    const isWhole = choice.end?.finishReason === 'stop';
    const reason = choice.end?.finishReason === 'length' ? 'max_output_tokens' : 'aborted';
    return this.#response(isWhole ? 'completed' : 'incomplete', {
      incomplete_details: isWhole ? null : { reason },
      usage: usageOf(usage),
    });
  }

  /** The end of a stream. */
  end(choice: Choice, usage: Usage): string {
    const events = this.#finish(choice);
    const response = this.whole(choice, usage) as { status: string };
    return events + this.#event(`response.${response.status}`, { response });
  }

  /** The end of a stream that failed. @param error its code and message */
  fail({ code, message }: { readonly code: string | null; readonly message: string }): string {
    const error = { code: code ?? 'server_error', message };
    return this.#event('response.failed', { response: this.#response('failed', { error }) });
  }

  #response(status: string, more: object): object {
    const { id, created, model } = this.#head;
    return {
      id,
      object: 'response',
      created_at: created,
      status,
      error: null,
      incomplete_details: null,
      model,
      output: [...this.#items],
      parallel_tool_calls: true,
      previous_response_id: null,
      store: false,
      tool_choice: 'auto',
      tools: [],
      usage: null,
      ...more,
    };
  }

  #say(kind: OpenItem['kind'], piece: string): string {
    let events = this.#open !== null && this.#open.kind !== kind ? this.#close('completed') : '';
    if (this.#open === null) events += this.#begin(kind);
    const open = this.#open as unknown as OpenItem;
    open.text += piece;
    const { part } = KINDS[kind];
    return (
      events +
      this.#event(`response.${part}.delta`, { ...this.#place(open), delta: piece, ...logprobs(kind) })
    );
  }

  #begin(kind: OpenItem['kind']): string {
    const open = { kind, id: this.#newId(KINDS[kind].prefix), text: '' };
    this.#open = open;
    const item = { ...itemOf(open, 'in_progress'), content: [] };
    return (
      this.#event('response.output_item.added', { output_index: this.#items.length, item }) +
      this.#event('response.content_part.added', { ...this.#place(open), part: partOf(open) })
    );
  }

  #close(status: string): string {
    const open = this.#open;
    if (open === null) return '';
    const item = itemOf(open, status);
    const at = this.#place(open);
    const events =
      this.#event(`response.${KINDS[open.kind].part}.done`, {
        ...at,
        text: open.text,
        ...logprobs(open.kind),
      }) +
      this.#event('response.content_part.done', { ...at, part: partOf(open) }) +
      this.#event('response.output_item.done', { output_index: this.#items.length, item });
    this.#items.push(item);
    this.#open = null;
    return events;
  }

  #call({ id: call_id, function: { name, arguments: args } }: ToolCall): string {
    let events = this.#close('completed');
    const output_index = this.#items.length;
    const id = this.#newId('fc');
    const item = { type: 'function_call', id, call_id, name, arguments: args, status: 'completed' };
    const at = { item_id: id, output_index };
    const begun = { ...item, arguments: '', status: 'in_progress' };
    events += this.#event('response.output_item.added', { output_index, item: begun });
    events += this.#event('response.function_call_arguments.delta', { ...at, delta: args });
    events += this.#event('response.function_call_arguments.done', { ...at, name, arguments: args });
    events += this.#event('response.output_item.done', { output_index, item });
    this.#items.push(item);
    return events;
  }

  /** Closes the open item. A response without output has a message with an empty text. */
  #finish({ end }: Choice): string {
    const events = this.#open === null && this.#items.length === 0 ? this.#begin('message') : '';
    return events + this.#close(end?.finishReason === 'stop' ? 'completed' : 'incomplete');
  }

  #newId(prefix: string): string {
    return `${prefix}_${this.#items.length}_${this.#head.id.replace(/^resp_/, '')}`;
  }

  #place({ id }: OpenItem): object {
    return { item_id: id, output_index: this.#items.length, content_index: 0 };
  }

  #event(type: string, data: object): string {
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.#sequence++, ...data })}\n\n`;
  }
}

function itemOf(open: OpenItem, status: string): object {
  const { kind, id } = open;
  const content = [partOf(open)];
  if (kind === 'reasoning') return { type: kind, id, summary: [], content, status };
  return { type: kind, id, status, role: 'assistant', content };
}

function partOf({ kind, text }: OpenItem): object {
  return { type: KINDS[kind].part, text, ...(kind === 'message' && { annotations: [], logprobs: [] }) };
}

function logprobs(kind: OpenItem['kind']): object {
  return kind === 'message' ? { logprobs: [] } : {};
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
