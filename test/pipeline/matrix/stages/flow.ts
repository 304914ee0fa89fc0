import { Random } from '../../../../src/base/random.js';
import type { SubjectOptions } from '../subject.js';

/** The options that decide the shapes of requests, besides their seeds. */
export type ShapeOptions = Pick<SubjectOptions, 'textChunks' | 'shortAnswers'>;

/** How much each stage computes for one request. Counts are of steps; a step makes one token or one piece of sound. */
export interface Shape {
  /** Steps of stage 0, which writes text, and the steps after each of which it hands a chunk on. */
  readonly text: number;
  readonly textPerChunk: number;
  /** Steps of stage 1, which makes codes of the text, and the steps after each of which it hands a chunk on. */
  readonly codes: number;
  readonly codesPerChunk: number;
  /** Chunks of stage 2, which are what the client hears: one for each chunk of stage 1. */
  readonly sounds: number;
}

/** The shape of a request: see `SubjectOptions`. */
export function shapeOf(seed: number, { textChunks = 1, shortAnswers = false }: ShapeOptions): Shape {
  const random = new Random(seed);
  const chunks = 1 + random.below(textChunks);
  const textPerChunk = 2 + random.below(3);
  const codesPerChunk = 2 + random.below(3);
  const sounds = (shortAnswers ? 4 : 12) + random.below(4);
  return {
    text: chunks * textPerChunk,
    textPerChunk,
    codes: sounds * codesPerChunk,
    codesPerChunk,
    sounds,
  };
}

/** A chunk between two stages. */
export interface Chunk {
  /** Index of the chunk among those of its request and stage. */
  readonly index: number;
  /** Whether it is the last one of its request and stage. */
  readonly finished: boolean;
}

/** Chunks between the stages, by key, as a store keeps them: put once, taken once, there from a tick on. */
export class Transport {
  readonly #chunks = new Map<string, { chunk: Chunk; from: number }>();

  /** @param from the tick from which on the chunk can be taken */
  put(key: string, chunk: Chunk, from: number): void {
    this.#chunks.set(key, { chunk, from });
  }

  /** Takes the chunk out; null if there is none yet. */
  remove(key: string, now: number): Chunk | null {
    const found = this.#chunks.get(key);
    if (found === undefined || found.from > now) return null;
    this.#chunks.delete(key);
    return found.chunk;
  }
}

/** The key of a chunk, as vllm-omni makes it: without an incarnation. */
export function chunkKey(id: string, producer: number, index: number): string {
  return `${id}_${producer}_${index}`;
}

/**
 * The computation of the three stages for each request: the schedulers decide which requests
 * compute, and this class decides the results.
 */
export class Flow {
  readonly transport = new Transport();
  readonly #requests = new Map<string, { shape: Shape; steps: [number, number, number] }>();
  readonly #random: Random;
  readonly #sound: (id: string, index: number, finished: boolean) => void;

  /** @param sound called for each chunk that the last stage makes */
  constructor(seed: number, sound: (id: string, index: number, finished: boolean) => void) {
    this.#random = new Random(seed);
    this.#sound = sound;
  }

  /** Begins a request. */
  begin(id: string, shape: Shape): void {
    this.#requests.set(id, { shape, steps: [0, 0, 0] });
  }

  /** A stage has computed one step of a request. @returns whether its work in that stage is done with this step */
  step(stage: number, id: string, now: number): boolean {
    const request = this.#requests.get(id);
    if (request === undefined) return false;
    const { shape, steps } = request;
    const done = ++steps[stage as 0];
    const [total, each] = [
      [shape.text, shape.textPerChunk],
      [shape.codes, shape.codesPerChunk],
      [shape.sounds, 1],
    ][stage] as [number, number];
    if (done > total) return false;
    const finished = done === total;
    if (done % each === 0 || finished) {
      const index = Math.ceil(done / each) - 1;
      if (stage === 2) this.#sound(id, index, finished);
      else this.transport.put(chunkKey(id, stage, index), { index, finished }, now + this.#random.below(3));
    }
    return finished;
  }
}
