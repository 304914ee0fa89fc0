import type { Subject, SubjectInput } from './subject.js';
import type { EndTokens, Prompts } from './tokens.js';
import type { AddEvent, TraceEvent } from './trace.js';

/** What came of an event, in the fields under which a trace records it. */
export interface Outcome {
  n?: number;
  was?: string;
  ok?: 0 | 1 | string[];
  preempted?: string[];
}

/** What add() is given for an add event. */
export function inputOf(end: EndTokens, event: AddEvent, prompt: Int32Array): SubjectInput {
  return {
    id: event.id,
    prompt,
    maxTokens: event.max_tokens,
    minTokens: event.min_tokens,
    eosTokenId: end.eos_id,
    ignoreEos: event.ignore_eos === 1,
    stopTokenIds: event.stop_at >= 0 ? [end.stop_id] : [],
    priority: event.priority,
    arrivalTime: event.arrival,
    ...(event.salt ? { cacheSalt: event.salt } : {}),
  };
}

/** Carries events out on one scheduler. */
export class EventPlayer {
  readonly #subject: Subject;
  readonly #end: EndTokens;
  readonly #prompts: Prompts;
  readonly #policy: 'fcfs' | 'priority';

  constructor(subject: Subject, end: EndTokens, prompts: Prompts, policy: 'fcfs' | 'priority') {
    this.#subject = subject;
    this.#end = end;
    this.#prompts = prompts;
    this.#policy = policy;
  }

  /** Throws for an event of a feature that is not supported. */
  play(event: TraceEvent): Outcome {
    const subject = this.#subject;
    switch (event.t) {
      case 'add': {
        const prompt = this.#prompts.spell(event);
        subject.add(inputOf(this.#end, event, prompt));
        return { n: prompt.length };
      }
      case 'abort': {
        const was = subject.get(event.id)?.status ?? 'UNKNOWN';
        return { was, ok: subject.abort(event.id).join() === event.id ? 1 : 0 };
      }
      case 'abort_many':
        return { ok: subject.abort(event.ids).sort() };
      case 'abort_all':
        return { ok: subject.abortAll() };
      case 'reset_prefix_cache':
        return this.#reset(event.running === 1);
      case 'pause':
        if (event.state === 'UNPAUSED') subject.resume();
        else subject.pause(event.state === 'PAUSED_ALL' ? 'all' : 'new');
        return {};
      default:
        throw new Error(`the runner cannot play an event "${event.t}"`);
    }
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
