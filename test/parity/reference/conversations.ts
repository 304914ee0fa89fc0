import type { AddEvent, ChunkEvent, Segment, TraceEvent } from '../trace.js';
import type { Random } from './random.js';
import type { Recipe } from './recipe.js';
import type { ReferenceScheduler } from './scheduler.js';
import { isIdle } from './state.js';

/** One session, as its client knows it. */
interface Conversation {
  add: AddEvent;
  chunks: (AddEvent | ChunkEvent)[];
  /** Most tokens that it can have by the end of the last chunk's answer. */
  longest: number;
  ended: boolean;
}

/**
 * Draws the actions of the clients of sessions: chunks that come early or late, ends, and prompts
 * that quote earlier texts.
 */
export class Conversations {
  readonly #recipe: Recipe;
  readonly #random: Random;
  readonly #open = new Map<string, Conversation>();
  /** The texts of sessions when they waited for input, with the token that is dropped then. */
  readonly #said = new Map<string, number[]>();

  constructor(recipe: Recipe, random: Random) {
    this.#recipe = recipe;
    this.#random = random;
  }

  /** Makes an add event open a session. */
  open(add: AddEvent): void {
    add.resumable = 1;
    add.max_tokens = this.#random.integer(1, 5);
    add.min_tokens = Math.min(add.min_tokens, add.max_tokens);
    Object.assign(add, this.#ending(add.max_tokens));
    this.#open.set(add.id, { add, chunks: [add], longest: add.n + add.max_tokens, ended: false });
  }

  /** Where the fake model ends an answer. */
  chunk(id: string, chunk: number): AddEvent | ChunkEvent | undefined {
    return this.#open.get(id)?.chunks[chunk];
  }

  /** A prompt that begins as a session was once, and goes on otherwise; null if none was. */
  quote(idx: number, longest: number): Segment[] | null {
    const recent = [...this.#said.values()].slice(-6);
    const fitting = recent.filter((tokens) => tokens.length < longest);
    if (fitting.length === 0) return null;
    return [
      ['x', this.#random.pick(fitting)],
      ['s', 1000 + idx, 0, 1],
    ];
  }

  /** The events of clients for the live sessions in one step. */
  events(step: number, subject: ReferenceScheduler, longest: number): TraceEvent[] {
    const events: TraceEvent[] = [];
    for (const conversation of this.#open.values()) {
      const request = subject.get(conversation.add.id);
      if (!request || conversation.ended) continue;
      if (isIdle(request)) this.#said.set(`${request.id} ${request.chunk}`, [...request.tokens]);
      if (this.#random.chance(isIdle(request) ? 0.5 : 0.1)) {
        const chunk = this.#next(step, conversation, longest);
        events.push(chunk ?? this.#end(conversation));
      } else if (this.#random.chance(0.02)) events.push(this.#end(conversation));
    }
    return events;
  }

  #end(conversation: Conversation): TraceEvent {
    conversation.ended = true;
    return { t: 'end', id: conversation.add.id, was: '' };
  }

  #next(step: number, conversation: Conversation, longest: number): ChunkEvent | null {
    const { add, chunks } = conversation;
    const n = this.#random.integer(1, 6);
    conversation.longest += n + add.max_tokens;
    if (conversation.longest >= longest) return null;
    const max_tokens = this.#random.integer(add.max_tokens, 6);
    const idx = add.idx + 1000 * chunks.length;
    const chunk: ChunkEvent = {
      t: 'chunk',
      id: add.id,
      was: '',
      idx,
      prompt: [['s', 3000 + idx, 0, n]],
      n,
      max_tokens,
      arrival: step + this.#random.integer(-2, 3) / 4,
      ignore_eos: this.#random.chance(0.3) ? 1 : 0,
      min_tokens: this.#random.chance(0.3) ? this.#random.integer(0, add.max_tokens) : 0,
      ...this.#ending(add.max_tokens),
    };
    chunks.push(chunk);
    return chunk;
  }

  #ending(maxTokens: number): { eos_at: number; stop_at: number } {
    if (this.#recipe.lengthStopsOnly) return { eos_at: -1, stop_at: -1 };
    const at = () => (this.#random.chance(0.3) ? this.#random.integer(0, maxTokens) : -1);
    return { eos_at: at(), stop_at: at() };
  }
}
