import { mix } from '../base/random.js';
import { Engine } from '../engine/engine.js';
import type { RequestStream } from '../engine/streams/request-stream.js';
import { ReferenceExecutor } from '../executors/reference/reference-executor.js';
import { mayFail, type Scene } from './scene.js';
import { BLOCK_SIZE, MAX_MODEL_LEN, type Station, type Surroundings, TEXT_SEED } from './station.js';
import { Trouble } from './watch/trouble.js';

/** Number of common beginnings of prompts. */
const FAMILIES = 5;

/** One request of a client. */
interface Visit extends Inquiry {
  readonly id: string;
  readonly station: Station;
  readonly stream: RequestStream;
  readonly tokens: number[];
  /** Chunks that were not sent yet. */
  readonly unsent: Int32Array[];
  /** The round in which the client aborts; Infinity: never. */
  readonly leavesIn: number;
  /** The client has ended the input. */
  isDone: boolean;
  end: 'open' | 'whole' | 'aborted' | 'failed';
  /** Why the request failed. */
  error: string;
  /** The engine was killed, so the client never learns of the end. */
  isLost: boolean;
}

/** The clients of a run: their arrivals, their requests, and the results. */
export class Clients {
  readonly #around: Surroundings;
  readonly #scene: Scene;
  readonly #visits: Visit[] = [];
  /** Requests for another engine, with the transfer params of the first engine. */
  readonly #handOvers: { readonly visit: Visit; readonly params: Record<string, unknown> }[] = [];
  #numCame = 0;

  constructor(around: Surroundings) {
    this.#around = around;
    this.#scene = around.scene;
  }

  /** Clients that are still to come. */
  get numToCome(): number {
    return this.#scene.numClients - this.#numCame;
  }

  /** Requests that have not ended. */
  get open(): readonly { readonly id: string; readonly station: Station }[] {
    return this.#visits.filter(({ end, isLost }) => end === 'open' && !isLost);
  }

  /** Submits a new client's request to one of the engines. */
  come(stations: readonly Station[]): void {
    const { random, scene, diary } = this.#around;
    this.#numCame++;
    const [forNew, forHandOvers] = (['hand-overs', 'new'] as const).map((other) =>
      stations.filter(({ under }) => under.takes !== other),
    );
    const mayGoOn = forHandOvers.length > 0 && this.#handOvers.length > 0;
    const next = mayGoOn && random.next() < 0.6 ? this.#handOvers.shift() : undefined;
    const open = next === undefined ? forNew : forHandOvers;
    const station = open[random.below(open.length)];
    const inquiry = next?.visit ?? this.#draw();
    const params = next?.params ?? station.under.transferParams?.();
    const ended = this.#visits.filter((visit) => visit.end !== 'open' && visit.station === station);
    const isSame = random.next() * 100 < scene.chances.sameId && ended.length > 0;
    const id = isSame ? ended[random.below(ended.length)].id : `r${this.#numCame}`;
    if (this.#visits.some((visit) => visit.end === 'open' && visit.id === id && visit.station === station))
      return;
    const { prompt, maxTokens, chunks } = inquiry;
    const stream = station.engine.submit({
      ...{ id, prompt, maxTokens, resumable: chunks.length > 0 },
      ...(params !== undefined && { transferParams: params }),
    });
    const leaves = random.next() * 100 < scene.chances.abort;
    const leavesIn = leaves ? diary.round + random.below(40) : Number.POSITIVE_INFINITY;
    diary.note(
      `${id} comes: ${prompt.length} tokens${params === undefined ? '' : ` with ${JSON.stringify(params)}`}`,
    );
    const visit: Visit = {
      ...{ id, station, stream, prompt, maxTokens, chunks, leavesIn, tokens: [], unsent: [...chunks] },
      ...{ end: 'open', error: '', isLost: false, isDone: false },
    };
    this.#visits.push(visit);
    void this.#read(visit);
  }

  /** The actions of clients in a round: they abort, or continue their sessions. */
  act(isCalm: boolean): void {
    const { random, diary } = this.#around;
    for (const visit of this.#visits) {
      const { stream, unsent, chunks, end, isLost, leavesIn, id } = visit;
      if (end !== 'open' || isLost) continue;
      if (diary.round >= leavesIn) {
        diary.note(`${id} goes away`);
        stream.abort();
        continue;
      }
      if (chunks.length === 0 || visit.isDone || (!isCalm && random.next() < 0.9)) continue;
      const chunk = unsent.shift();
      if (chunk !== undefined) stream.addChunk({ prompt: chunk });
      else {
        stream.endInput();
        visit.isDone = true;
      }
    }
  }

  /** Marks the requests of a killed engine as lost. */
  lose(station: Station): void {
    for (const visit of this.#visits) if (visit.station === station) visit.isLost = true;
  }

  /** Compares every text with the text of the same request without a connector. */
  async judge(): Promise<void> {
    const texts = await expectedTexts(this.#visits);
    for (const [i, { id, tokens, end, isLost, error, station }] of this.#visits.entries()) {
      const right = texts[i];
      const wrong = tokens.findIndex((token, at) => token !== right[at]);
      if (wrong >= 0)
        throw new Trouble(
          `token ${wrong} of ${id} must be ${right[wrong]}, as without the connector, got ${tokens[wrong]}`,
        );
      if (isLost) continue;
      if (end === 'whole' && tokens.length !== right.length)
        throw new Trouble(
          `${id} must get ${right.length} tokens, as without the connector, got ${tokens.length}`,
        );
      const failed =
        this.#scene.endsEarly || station.workers.some(({ lost }) => lost.size > 0) || mayFail(this.#scene);
      if (end === 'failed' && !failed)
        throw new Trouble(`${id} must not fail, because nothing went wrong, failed with: ${error}`);
    }
  }

  #draw(): Inquiry {
    const { random, scene } = this.#around;
    const family = random.below(FAMILIES);
    if (random.next() * 100 < scene.chances.session) {
      const chunks = Array.from({ length: 1 + random.below(2) }, () =>
        this.#words(3 + random.below(9), random.below(99)),
      );
      return { prompt: this.#words(5 + random.below(14), family), maxTokens: 1 + random.below(4), chunks };
    }
    const prompt = this.#words(6 + random.below(38), family);
    return { prompt, maxTokens: 1 + random.below(9), chunks: [] };
  }

  /** Words of a small language, so that a text has a continuation. */
  #words(length: number, family: number): Int32Array {
    return Int32Array.from({ length }, (_, i) => 10 + (mix(family, i - (i % 3)) % 7) * 3 + (i % 3));
  }

  async #read(visit: Visit): Promise<void> {
    try {
      let reason: string | null = null;
      for await (const { tokens, finishReason, continues } of visit.stream) {
        visit.tokens.push(...tokens);
        if (!continues) reason = finishReason ?? reason;
      }
      visit.end = reason === 'abort' ? 'aborted' : 'whole';
      const { transferParams } = await visit.stream.result();
      // Each request is handed over once, or twice by a confused client; or never.
      if (transferParams !== null) this.#handOvers.push({ visit, params: { ...transferParams } });
    } catch (error) {
      visit.end = 'failed';
      visit.error = error instanceof Error ? error.message : String(error);
    }
  }
}

/** The request of a client. */
interface Inquiry {
  readonly prompt: Int32Array;
  /** Tokens of each answer. */
  readonly maxTokens: number;
  /** For a session: the chunks behind the prompt. */
  readonly chunks: readonly Int32Array[];
}

/**
 * The answers of an engine without a connector, with room for all requests. Texts are the same with
 * KV cache groups and without.
 */
async function expectedTexts(inquiries: readonly Inquiry[]): Promise<Int32Array[]> {
  const sizes = { numBlocks: 4096, blockSize: BLOCK_SIZE, maxNumSeqs: 128, maxModelLen: MAX_MODEL_LEN };
  using engine = new Engine({ ...sizes, executor: new ReferenceExecutor({ ...sizes, seed: TEXT_SEED }) });
  const streams = inquiries.map(({ prompt, maxTokens, chunks }) => {
    const stream = engine.submit({ prompt, maxTokens, resumable: chunks.length > 0 });
    for (const chunk of chunks) stream.addChunk({ prompt: chunk });
    if (chunks.length > 0) stream.endInput();
    return stream.result();
  });
  while (engine.hasWork()) engine.step();
  return (await Promise.all(streams)).map(({ tokens }) => tokens);
}
