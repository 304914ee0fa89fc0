import { mostTokens } from '../audit/group-rules.js';
import { drawPrompt } from '../shared/draws.js';
import type { Rng } from '../shared/rng.js';
import { END_TOKEN } from '../shared/text.js';
import { Client, textOf, type Wish } from './clients.js';
import { SimGrammar } from './grammar.js';
import type { Stage } from './stage.js';
import type { Timeouts } from './timeouts.js';

/** A request that is being submitted. */
interface Submitting {
  id: string;
  /** Its connector aborted it meanwhile, with this reason. */
  asked: boolean;
  reason: unknown;
}

/** All clients of one engine: their requests, their chunks and their aborts. */
export class Crowd {
  /** By handle, in the order in which they came. */
  readonly clients = new Map<number, Client>();
  readonly #stage: Stage;
  readonly #timeouts: Timeouts;
  #submitting: Submitting | null = null;

  constructor(stage: Stage, timeouts: Timeouts) {
    this.#stage = stage;
    this.#timeouts = timeouts;
  }

  /** @param isInside from inside of a call of the executor */
  submit(isInside = false): void {
    const stage = this.#stage;
    const { engine } = stage;
    const wish = this.#wish();
    const controller = new AbortController();
    const text = textOf(wish, stage.limits);
    const grammar = wish.hasGrammar
      ? new SimGrammar(stage, 17, stage.now + readyIn(stage.rng('clients')))
      : undefined;
    const { id, prompt, maxTokens, minTokens, salt, adapter, priority, stopTokenIds, eosTokenId } = wish;
    let client: Client;
    const submitting: Submitting = { id: wish.id, asked: false, reason: undefined };
    this.#submitting = submitting;
    try {
      const stream = engine.submit(
        {
          ...{ id, prompt, maxTokens, minTokens, cacheSalt: salt, adapter, priority, stopTokenIds },
          ...(eosTokenId >= 0 ? { eosTokenId } : {}),
          ...(wish.isSession ? { resumable: true } : {}),
          ...(grammar === undefined ? {} : { grammar }),
          ...(wish.timeoutMs === undefined ? {} : { timeoutMs: wish.timeoutMs }),
        },
        { signal: controller.signal },
      );
      if (grammar !== undefined) grammar.handle = stream.handle;
      stage.transcripts.set(stream.handle, text);
      stage.call(stream.handle, id);
      client = new Client(stage, wish, stream, text, controller);
      this.clients.set(stream.handle, client);
      this.#timeouts.submitted(stream.handle, wish.timeoutMs);
      const { asked, reason } = submitting;
      if (asked) Object.assign(client, { abortAsked: true, reason });
      if (asked && !stream.ended)
        stage.broke('I14', `${client.name} was aborted when its connector was told of it, and goes on`);
      stage.note(
        `submit ${client.name}: ${prompt.length} + ${maxTokens}${wish.isSession ? ', a session' : ''}`,
      );
    } catch (error) {
      this.#refused(wish, error, isInside);
    } finally {
      this.#submitting = null;
    }
  }

  #refused({ id, prompt }: Wish, error: unknown, isInside: boolean): void {
    const { code = '' } = error as { code?: string };
    const { limits } = this.#stage;
    const isTaken = [...this.clients.values()].some(({ wish, stream }) => wish.id === id && !stream.ended);
    if (code === 'ERR_BLOCKSTEP_DUPLICATE_ID' && (isTaken || isInside)) return;
    if (code === 'ERR_BLOCKSTEP_SHUTDOWN' && this.#stage.isOver) return;
    const room = Math.min(limits.maxModelLen - 1, mostTokens(limits));
    if (code === 'ERR_BLOCKSTEP_UNFIT' && prompt.length > room) return;
    throw error;
  }

  #wish(): Wish {
    const rng = this.#stage.rng('clients');
    const { workload } = this.#stage.setup;
    const { mostTokens, numIds, numAdapters, sessions, grammars } = workload;
    const prompt = drawPrompt(workload, rng);
    const maxTokens = rng.between(1, mostTokens);
    const stopsBy = rng.below(3);
    const timed = this.#stage.rng('timeouts of requests');
    const timeoutMs = timed.chance(workload.timeouts) ? timed.between(40, 500) : undefined;
    const wish: Wish = {
      id: `r${rng.below(numIds)}`,
      prompt,
      maxTokens,
      minTokens: rng.chance(0.2) ? maxTokens : 0,
      eosTokenId: stopsBy === 0 ? END_TOKEN : -1,
      stopTokenIds: stopsBy === 1 ? [END_TOKEN] : [],
      salt: rng.chance(0.1) ? 'salt' : '',
      adapter: numAdapters > 0 ? rng.pick(['', 'a', 'b', 'c']) : '',
      priority: rng.below(3),
      isSession: rng.chance(sessions),
      hasGrammar: rng.chance(grammars),
      reads: rng.pick(['at once', 'at once', 'at once', 'late', 'leaves']),
    };
    // A session that begins without a prompt. No draw of its own, so that every seed has the life that it had.
    if (wish.isSession && !wish.hasGrammar && maxTokens % 3 === 0) wish.prompt = new Int32Array(0);
    // When the time of a session begins depends on its answers, which the other simulation counts.
    if (timeoutMs !== undefined && !wish.isSession) wish.timeoutMs = timeoutMs;
    return wish;
  }

  /** Somebody's session goes on with a chunk, or its input ends. */
  chunk(): void {
    const rng = this.#stage.rng('clients');
    const open = [...this.clients.values()].filter(({ isSessionOpen }) => isSessionOpen);
    if (open.length === 0) return;
    const client = rng.pick(open);
    const { stream, wish, text, name } = client;
    if (rng.chance(0.2)) {
      client.inputEnded = true;
      this.#stage.note(`end input of ${name}: ${stream.endInput()}`);
      return;
    }
    const prompt = Int32Array.from({ length: rng.between(1, 8) }, () => 500 + rng.below(40));
    const maxTokens = rng.between(1, this.#stage.setup.workload.mostTokens);
    try {
      const outcome = stream.addChunk({ prompt, maxTokens, minTokens: 0 });
      this.#stage.note(`chunk of ${prompt.length} + ${maxTokens} for ${name}: ${outcome}`);
      if (outcome === 'skipped') return;
      this.#stage.count(`chunk ${outcome}`);
      text.addChunk(prompt, { ...wish, maxTokens, minTokens: 0 });
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_BLOCKSTEP_UNFIT') throw error;
    }
  }

  /** A client among the last ten. */
  someone(rng: Rng): Client | undefined {
    const all = [...this.clients.values()];
    return all[Math.max(0, all.length - 1 - rng.below(10))];
  }

  /** Aborts the request of a client among the last ten, in one of five ways. */
  abort(from: 'outside' | 'executor' | 'connector'): void {
    if (from === 'connector' && this.#submitting !== null && this.#abortSubmitting(this.#submitting)) return;
    const rng = this.#stage.rng('aborts');
    const client = this.someone(rng);
    if (client === undefined) return;
    const { engine } = this.#stage;
    const { stream, controller, wish } = client;
    const reason = rng.chance(0.5) ? undefined : 'enough';
    const ways: [string, unknown, () => void][] = [
      ['handle', reason, () => stream.abort(reason)],
      ['number', reason, () => engine.abort(stream.handle, reason)],
      ['id', reason, () => engine.abort(wish.id, reason)],
      ['signal', 'signal', () => controller.abort('signal')],
      ['stop', undefined, () => client.stop(reason as string | undefined, from !== 'connector')],
    ];
    const [way, why, act] = rng.pick(ways);
    this.#stage.note(`abort ${client.name} by ${way}, ${from}`);
    if (way === 'stop') {
      act();
      return;
    }
    this.#stage.count('aborts asked');
    for (const each of this.clients.values()) {
      const isMeant = way === 'id' ? each.wish.id === wish.id : each === client;
      if (!isMeant || each.stream.ended) continue;
      each.asked(why);
      // From inside the connector it may come when the end is being made.
      if (from !== 'connector') this.#stage.aborted(each.stream.handle);
    }
    // The id may name a request that its connector is just getting, and that has no client yet.
    if (way === 'id' && this.#submitting?.id === wish.id && this.#isTold(this.#submitting))
      Object.assign(this.#submitting, { asked: true, reason });
    act();
  }

  /**
   * Whether its id names the request by now, and not an earlier request, whose end the connector
   * gets first.
   */
  #isTold({ id }: Submitting): boolean {
    const known = this.#stage.engine.scheduler.get(id);
    return known !== undefined && !this.clients.has(known.handle);
  }

  /** Aborts a request that its connector is just getting, and that has no client yet. */
  #abortSubmitting(submitting: Submitting): boolean {
    const rng = this.#stage.rng('aborts of the newest');
    if (!this.#isTold(submitting) || rng.chance(0.5)) return false;
    const reason = rng.chance(0.5) ? undefined : 'at once';
    this.#stage.note(`abort ${submitting.id}, which is being added`);
    this.#stage.count('newest aborted');
    this.#stage.count('aborts asked');
    if (!submitting.asked) Object.assign(submitting, { asked: true, reason });
    this.#stage.engine.abort(submitting.id, reason);
    return true;
  }
}

/** Milliseconds until a grammar is compiled, now and then more than its deadline allows. */
function readyIn(rng: Rng): number {
  return rng.below(60) * rng.pick([1, 1, 10]);
}
