// Plays the events of a trace.
import { byCodePoints } from './code-points.js';
import type { TraceConnector } from './connector.js';
import { TraceGrammar } from './grammar.js';
import { type Subject, type SubjectChunk, type SubjectInput, vllmStatus } from './subject.js';
import type { EndTokens, Prompts } from './tokens.js';
import type { AddEvent, ChunkEvent, TraceEvent } from './trace.js';

/** The result of an event, in the fields under which a trace records it. */
export interface Outcome {
  n?: number;
  was?: string;
  ok?: 0 | 1 | string[];
  preempted?: string[];
}

/** The argument of addChunk() for a chunk event. */
export function chunkOf(end: EndTokens, event: AddEvent | ChunkEvent, prompt: Int32Array): SubjectChunk {
  return {
    prompt,
    maxTokens: event.max_tokens,
    minTokens: event.min_tokens,
    eosTokenId: end.eos_id,
    ignoreEos: event.ignore_eos === 1,
    stopTokenIds: event.stop_at >= 0 ? [end.stop_id] : [],
    arrivalTime: event.arrival,
  };
}

/** The argument of add() for an add event. */
export function inputOf(
  end: EndTokens,
  event: AddEvent,
  prompt: Int32Array,
  grammar: TraceGrammar | undefined,
): SubjectInput {
  return {
    ...chunkOf(end, event, prompt),
    id: event.id,
    priority: event.priority,
    ...(event.salt ? { cacheSalt: event.salt } : {}),
    ...(event.lora ? { adapter: event.lora[0] } : {}),
    ...(event.resumable ? { resumable: true } : {}),
    ...(grammar ? { grammar } : {}),
  };
}

/** Carries events out on one scheduler. */
export class EventPlayer {
  readonly #subject: Subject;
  readonly #end: EndTokens;
  readonly #prompts: Prompts;
  readonly #policy: 'fcfs' | 'priority';
  readonly #connector: TraceConnector | null;
  readonly #grammars = new Map<string, TraceGrammar>();

  constructor(
    subject: Subject,
    end: EndTokens,
    prompts: Prompts,
    policy: 'fcfs' | 'priority',
    connector: TraceConnector | null,
  ) {
    this.#subject = subject;
    this.#end = end;
    this.#prompts = prompts;
    this.#policy = policy;
    this.#connector = connector;
  }

  play(event: TraceEvent): Outcome {
    const subject = this.#subject;
    switch (event.t) {
      case 'add': {
        const prompt = this.#prompts.spell(event);
        const grammar = event.so && new TraceGrammar(event.so);
        if (grammar) this.#grammars.set(event.id, grammar);
        this.#connector?.expect(event.id, event.kv);
        subject.add(inputOf(this.#end, event, prompt, grammar));
        return { n: prompt.length };
      }
      case 'chunk': {
        const prompt = this.#prompts.spell(event);
        const was = this.#statusOf(event.id);
        subject.addChunk(event.id, chunkOf(this.#end, event, prompt));
        return { n: prompt.length, was };
      }
      case 'end': {
        const was = this.#statusOf(event.id);
        subject.endSession(event.id);
        return { was };
      }
      case 'grammar':
        this.#grammars.get(event.id)?.finish(event.fail === 1);
        return {};
      case 'abort': {
        const was = this.#statusOf(event.id);
        return { was, ok: subject.abort(event.id).join() === event.id ? 1 : 0 };
      }
      case 'abort_many':
        return { ok: subject.abort(event.ids).sort(byCodePoints) };
      case 'abort_all':
        return { ok: subject.abortAll() };
      case 'reset_prefix_cache':
        return this.#reset(event.running === 1);
      case 'pause':
        if (event.state === 'UNPAUSED') subject.resume();
        else subject.pause(event.state === 'PAUSED_ALL' ? 'all' : 'new');
        return {};
    }
  }

  #statusOf(id: string): string {
    const finished = () => this.#subject.inspect().draining.find((request) => request.id === id);
    const request = this.#subject.get(id) ?? finished();
    return request === undefined ? 'UNKNOWN' : vllmStatus(request);
  }

  #reset(resetRunning: boolean): Outcome {
    const before = this.#subject.inspect().running.slice();
    const ok = this.#subject.resetPrefixCache({ resetRunning }).ok ? 1 : 0;
    const { running, waiting } = this.#subject.inspect();
    const victims = new Set(before.filter((id) => !running.includes(id)));
    // Each victim goes to the front of a fcfs queue, so the queue has them last first. A sorted queue shows no order;
    // there the free queue shows which blocks were freed first.
    const order = this.#policy === 'fcfs' ? waiting.filter((id) => victims.has(id)) : before;
    return { ok, preempted: order.filter((id) => victims.has(id)).reverse() };
  }
}
