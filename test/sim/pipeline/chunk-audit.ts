import type { PipelineMessage, RequestKey } from '../../../src/pipeline/transport/messages.js';
import type { World } from './world.js';

/** The observed chunks of one request between two parties. */
interface Link {
  sent: number;
  /** The last chunk whose taking its sender has heard of. */
  taken: number;
  isOver: boolean;
  tokens: number[];
}

/** A request that is submitted. */
export interface Expected {
  readonly name: string;
  /** All tokens of each stage. */
  readonly texts: readonly (readonly number[])[];
}

/**
 * Watches the chunks on their way: each number once and in order, no more of them ahead than
 * allowed, none behind the last one. Their tokens are those of the text by hand.
 */
export class ChunkAudit {
  readonly #world: World;
  readonly #links = new Map<string, Link>();
  /**
   * The expected texts of each request, and its name in the journal: keys differ from run to run.
   */
  readonly #expected = new Map<RequestKey, Expected>();
  /** The request that is submitted next. */
  next: Expected | null = null;
  /** The last time at which a stage reported a computed chunk of a request, in milliseconds. */
  readonly #computedAt = new Map<string, number>();
  /** The last time at which a stage received such a report that was not known yet. */
  readonly #heardAt = new Map<string, number>();
  /** The requests, by name and stage, of which a stage has told that they failed there. */
  readonly #failed = new Set<string>();
  /** When a request has ended for its client, in milliseconds; by its name. */
  readonly endedAt = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
  }

  /** A stage is made again: it may send chunks from the first one on again. */
  forget(stage: string): void {
    for (const pair of [...this.#links.keys()]) if (pair.startsWith(`${stage}>`)) this.#links.delete(pair);
  }

  /**
   * The last time at which a stage reported a computed chunk of the request of this name, in
   * milliseconds; 0: never.
   */
  computedAt(name: string, party: string): number {
    return this.#computedAt.get(`${name} ${party}`) ?? 0;
  }

  /**
   * The last time at which a stage received the report that its chunk of this request is computed,
   * in milliseconds; 0: never.
   */
  heardAt(name: string, party: string): number {
    return this.#heardAt.get(`${name} ${party}`) ?? 0;
  }

  sent(from: string, to: string, message: PipelineMessage): void {
    if (message.kind === 'submit' && this.next !== null)
      this.#expected.set(message.submission.key, this.next);
    if (message.kind === 'taken')
      this.#computedAt.set(`${this.#expected.get(message.key)?.name} ${from}`, this.#world.now);
    if (message.kind === 'failed') this.#failed.add(`${this.#expected.get(message.key)?.name} ${from}`);
    if (message.kind === 'pong') for (const key of message.keys) this.#checkKnown(from, key);
    if (message.kind !== 'chunk' || !from.startsWith('stage/')) return;
    const { key, chunk } = message;
    const link = this.#link(from, to, key);
    const { name, texts } = this.#expected.get(key) as Expected;
    const what = `chunk ${chunk.number} of ${name} from ${from}`;
    const world = this.#world;
    if (chunk.number !== ++link.sent) world.broke('chunks', `${what} is sent behind chunk ${link.sent - 1}`);
    if (link.isOver) world.broke('chunks', `${what} is sent behind the last one`);
    link.isOver = chunk.isLast;
    const stage = world.setup.stages.findIndex((each) => from === `stage/${each.name}`);
    const { chunkTokens, maxChunksAhead } = world.setup.stages[stage];
    const ahead = link.sent - link.taken;
    const most = maxChunksAhead + (chunk.tokens.length === 0 ? 1 : 0);
    if (ahead > most) world.broke('window', `${what} is sent with ${ahead} ahead, ${most} are allowed`);
    if (chunk.tokens.length > chunkTokens) world.broke('chunks', `${what} has ${chunk.tokens.length} tokens`);
    const text = texts[stage];
    chunk.tokens.forEach((token) => {
      if (token !== text[link.tokens.length])
        world.broke(
          'text',
          `${what} has token ${token} at ${link.tokens.length}, where ${text[link.tokens.length]} is right`,
        );
      link.tokens.push(token);
    });
    if (chunk.isLast && link.tokens.length !== text.length)
      world.broke('text', `${what} is the last one, with ${link.tokens.length} of ${text.length} tokens`);
    world.count('chunks');
  }

  delivered(from: string, to: string, message: PipelineMessage): void {
    if (message.kind !== 'taken' || !to.startsWith('stage/')) return;
    const link = this.#links.get(`${to}>${from} ${message.key}`);
    // A copy of an earlier report is no news, and the sender's wait goes on.
    if (link === undefined || message.number <= link.taken) return;
    link.taken = message.number;
    // News that come after the stage has given the request up do not make that wrong.
    const place = `${this.#expected.get(message.key)?.name} ${to}`;
    if (!this.#failed.has(place)) this.#heardAt.set(place, this.#world.now);
  }

  /**
   * A stage forgets an ended request as soon as it can know: at once where messages come, and else
   * when it reports its requests.
   */
  #checkKnown(party: string, key: RequestKey): void {
    const { setup, now, calmAt } = this.#world;
    const name = this.#expected.get(key)?.name ?? '';
    const endedAt = this.endedAt.get(name);
    if (endedAt === undefined || setup.mood === 'deaths') return;
    const isOrderly = setup.mood === 'quiet' || setup.mood === 'chunks';
    const since = isOrderly ? endedAt : Math.max(endedAt, calmAt);
    // Late messages are up to 0.9 seconds late, and a silent stage hears of it when it wakes.
    const wakes = setup.faults.silence > 0 ? 2 * setup.deadMs : 0;
    const most = isOrderly ? setup.latency + 40 : 3 * setup.latency + setup.pingMs + 950 + wakes;
    if (now - since > most)
      this.#world.broke('rest', `${party} has ${name}, which ended ${now - endedAt} ms ago`);
  }

  #link(from: string, to: string, key: RequestKey): Link {
    const name = `${from}>${to} ${key}`;
    const known = this.#links.get(name);
    if (known !== undefined) return known;
    const made: Link = { sent: 0, taken: 0, isOver: false, tokens: [] };
    this.#links.set(name, made);
    return made;
  }
}
