import type { AddEvent, Segment, TraceEvent } from '../trace.js';
import { Conversations } from './conversations.js';
import type { Random } from './random.js';
import type { Recipe } from './recipe.js';
import { mostTokens } from './room.js';
import type { ReferenceScheduler } from './scheduler.js';

/** External ids whose code points stand in another order than their UTF-16 units: U+FF5E comes before U+1F600. */
function idOf(idx: number): string {
  return `${['r', '\uff5e', '\u{1f600}'][idx % 3]}${idx}`;
}

function indexOf(id: string): number {
  return Number(/\d+$/.exec(id));
}

/** Thinks up what happens to a scheduler: requests that share prefixes and continue one another, aborts, pauses. */
export class Workload {
  readonly #recipe: Recipe;
  readonly #random: Random;
  readonly #adds: AddEvent[] = [];
  readonly #conversations: Conversations;
  /** Requests whose grammar does not compile. */
  readonly #failing = new Set<string>();

  constructor(recipe: Recipe, random: Random) {
    this.#recipe = recipe;
    this.#random = random;
    this.#conversations = new Conversations(recipe, random);
  }

  get numRequests(): number {
    return this.#adds.length;
  }

  /** Where the fake model ends the answer to a request, or to one chunk of it. */
  ending(id: string, chunk: number): { idx: number; eosAt: number; stopAt: number } {
    const { idx, eos_at, stop_at } = this.#conversations.chunk(id, chunk) ?? this.#adds[indexOf(id)];
    return { idx, eosAt: eos_at, stopAt: stop_at };
  }

  /** The events of a step, before they are carried out: `was`, `ok` and `preempted` are still to be filled in. */
  events(step: number, subject: ReferenceScheduler): TraceEvent[] {
    const { addRate, mostAdds, abortRate, pauseRate, resetRate, resetsRunning } = this.#recipe;
    const random = this.#random;
    const events: TraceEvent[] = [];
    const adds =
      step === 0 ? random.integer(1, 12) : random.chance(addRate) ? random.integer(1, mostAdds) : 0;
    for (let i = 0; i < adds; i++) events.push(this.#add(step));
    events.push(...this.#conversations.events(step, subject, this.#longest()), ...this.#grammars(subject));
    if (random.chance(abortRate)) events.push(this.abort(subject));
    if (random.chance(pauseRate)) {
      events.push({ t: 'pause', state: random.pick(['UNPAUSED', 'UNPAUSED', 'PAUSED_NEW', 'PAUSED_ALL']) });
    }
    if (random.chance(resetRate)) {
      const running = resetsRunning && random.chance(0.5) ? 1 : 0;
      events.push({ t: 'reset_prefix_cache', running, ok: 0, preempted: [] });
    }
    return events;
  }

  /** An abort of one or several requests, known or not. */
  abort(subject: ReferenceScheduler): TraceEvent {
    const random = this.#random;
    const { requests, draining } = subject.inspect();
    const live = requests.map((request) => request.id);
    const transferred = [...requests, ...draining].filter(({ status }) =>
      /^(FINISHED|WAITING_FOR_REMOTE)/.test(status),
    );
    const any = () => idOf(random.integer(0, this.#adds.length));
    if (random.chance(0.03)) return { t: 'abort_all', ok: [] };
    if (random.chance(0.2)) {
      // At most one that may hold blocks: the order of the others does not show.
      const waiting = subject.inspect().waiting.filter(() => random.chance(0.3));
      const unknown = idOf(this.#adds.length);
      return { t: 'abort_many', ids: [...waiting, unknown, ...waiting.slice(0, 1)], ok: [] };
    }
    if (transferred.length > 0 && random.chance(0.4))
      return { t: 'abort', id: random.pick(transferred).id, was: '', ok: 0 };
    const id = live.length > 0 && random.chance(0.8) ? random.pick(live) : any();
    return { t: 'abort', id, was: '', ok: 0 };
  }

  /** Some of the requests that wait for a grammar get it. */
  #grammars(subject: ReferenceScheduler): TraceEvent[] {
    const { grammarFailRate: rate } = this.#recipe;
    let failing = [...this.#failing].find((id) => subject.get(id) !== undefined);
    return subject
      .inspect()
      .requests.filter(({ status }) => status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR')
      .filter(({ id }) => id !== failing && this.#random.chance(0.4))
      .map(({ id }) => {
        if (failing !== undefined || rate === 0 || !this.#random.chance(rate)) return { t: 'grammar', id };
        failing = id;
        this.#failing.add(id);
        return { t: 'grammar', id, fail: 1 };
      });
  }

  #add(step: number): AddEvent {
    const random = this.#random;
    const { config, numSalts, numAdapters, grammarRate, sessionRate, longestOutput } = this.#recipe;
    const idx = this.#adds.length;
    const prompt = this.#prompt(idx, step);
    const lengths = prompt.map((segment) =>
      segment[0] === 'x' ? segment[1].length : (segment.at(-1) as number),
    );
    const n = lengths.reduce((sum, length) => sum + length, 0);
    const room = this.#longest() - n;
    const max_tokens = random.integer(1, Math.max(1, Math.min(room, longestOutput)));
    const at = () => (random.chance(0.3) ? random.integer(0, max_tokens) : -1);
    const add: AddEvent = {
      t: 'add',
      id: idOf(idx),
      idx,
      prompt,
      n,
      // Beyond the model's length only if the pool has room for a request of that length.
      max_tokens:
        room >= config.max_model_len - n && random.chance(0.2)
          ? max_tokens + config.max_model_len
          : max_tokens,
      arrival: step + random.integer(-2, 3) / 4,
      eos_at: at(),
      stop_at: at(),
      ignore_eos: random.chance(0.3) ? 1 : 0,
      min_tokens: random.chance(0.3)
        ? random.integer(0, Math.min(max_tokens, config.max_model_len - n - 1))
        : 0,
      priority: config.policy === 'priority' ? random.integer(0, 3) : 0,
      kv: this.#transfer(n),
    };
    if (numSalts > 0 && random.chance(0.6)) add.salt = `S${random.integer(1, numSalts)}`;
    const adapter = random.integer(1, Math.max(1, numAdapters));
    if (numAdapters > 0 && random.chance(0.6)) add.lora = [`L${adapter}`, adapter];
    if (random.chance(grammarRate)) {
      add.so = { mod: random.pick([0, 2, 3]), reject_at: random.chance(0.2) ? random.integer(0, 8) : -1 };
    }
    if (random.chance(sessionRate)) this.#conversations.open(add);
    else if (this.#recipe.lengthStopsOnly) Object.assign(add, { eos_at: -1, stop_at: -1 });
    this.#adds.push(add);
    return add;
  }

  /** The connector's parameters for a request of n prompt tokens. */
  #transfer(n: number): AddEvent['kv'] {
    const { connector } = this.#recipe;
    const random = this.#random;
    if (!connector || !random.chance(connector.rate)) return null;
    const flag = (rate: number): 0 | 1 => (random.chance(rate) ? 1 : 0);
    const isAsync = flag(connector.asyncRate);
    // A request whose tokens are all there already would have nothing to compute in the step.
    const most = isAsync === 1 && connector.loadsAll ? n : n - 1;
    const ext = random.chance(connector.fullRate) ? most : random.chance(0.2) ? 0 : random.integer(0, most);
    return {
      ext,
      async: isAsync,
      oneshot: flag(0.5),
      defer: random.chance(connector.deferRate) ? random.integer(1, 3) : 0,
      delay_free: flag(connector.delayRate),
      delay_abort: flag(connector.delayRate / 2),
    };
  }

  /** Most tokens of one request. */
  #longest(): number {
    const { config, mayOutgrowPool } = this.#recipe;
    if (config.kv_groups) return mayOutgrowPool ? config.max_model_len : mostTokens(config);
    const pool = (config.num_gpu_blocks - 1) * config.block_size - 2 * config.num_speculative_tokens;
    return mayOutgrowPool ? config.max_model_len : Math.min(config.max_model_len, pool);
  }

  /** Seed of a text that others begin with, too. */
  #sharedText(step: number): number {
    const { numShared } = this.#recipe;
    return numShared > 0 ? this.#random.integer(1, numShared) : 5000 + step;
  }

  #prompt(idx: number, step: number): Segment[] {
    const random = this.#random;
    const longest = Math.max(1, Math.min(this.#longest() - 2, this.#recipe.longestPrompt));
    if (idx > 0 && random.chance(0.25)) {
      const earlier = random.pick(this.#adds);
      const outputs = random.integer(1, Math.min(earlier.max_tokens, 40));
      if (earlier.n + outputs <= longest) return [...earlier.prompt, ['o', earlier.idx, outputs]];
    }
    const quote = random.chance(0.6) ? this.#conversations.quote(idx, longest) : null;
    if (quote) return quote;
    const shared = random.chance(this.#recipe.sharedRate) ? random.integer(1, longest) : 0;
    const own = Math.min(random.integer(shared === 0 ? 1 : 0, longest), longest - shared);
    const segments: Segment[] = [];
    if (shared > 0) segments.push(['s', this.#sharedText(step), 0, shared]);
    if (own > 0) segments.push(['s', 1000 + idx, 0, own]);
    return segments;
  }
}
