import { BlockstepError, messageOf } from '../../../base/errors.js';
import type { NativeEmbedder } from '../native/binding.js';

/** Texts of one call of `LlamaEmbedder.embed`. */
interface Job {
  readonly texts: readonly Int32Array[];
  /** Vectors of the texts that were computed so far. */
  readonly vectors: Float32Array[];
  readonly resolve: (vectors: readonly Float32Array[]) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Texts that wait for their vectors, first come, first served. Texts of several clients share a
 * call of llama.cpp.
 */
export class EmbedQueue {
  readonly #native: NativeEmbedder;
  readonly #batch: number;
  readonly #sequences: number;
  readonly #jobs: Job[] = [];
  #isComputing = false;
  #disposed = false;

  /** @param batch most tokens of a call @param sequences most texts of a call */
  constructor(native: NativeEmbedder, batch: number, sequences: number) {
    this.#native = native;
    this.#batch = batch;
    this.#sequences = sequences;
  }

  add(texts: readonly Int32Array[], signal: AbortSignal | null): Promise<readonly Float32Array[]> {
    if (this.#disposed) return Promise.reject(disposed());
    if (texts.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const job: Job = { texts, vectors: [], resolve, reject };
      this.#jobs.push(job);
      signal?.addEventListener('abort', () => this.#end(job, signal.reason), { once: true });
      void this.#compute();
    });
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#native.dispose();
    for (const job of [...this.#jobs]) this.#end(job, disposed());
  }

  async #compute(): Promise<void> {
    if (this.#isComputing) return;
    this.#isComputing = true;
    while (this.#jobs.length > 0) {
      const call = this.#nextCall();
      const tokens = Int32Array.from(call.flatMap(({ text }) => [...text]));
      const lengths = Int32Array.from(call, ({ text }) => text.length);
      try {
        const vectors = await this.#native.embed(tokens, lengths);
        const width = vectors.length / call.length;
        for (const [i, { job }] of call.entries())
          job.vectors.push(vectors.slice(i * width, (i + 1) * width));
      } catch (cause) {
        const message = `llama.cpp failed: ${messageOf(cause)}`;
        const error = new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', message, { cause });
        for (const { job } of call) this.#end(job, this.#disposed ? disposed() : error);
      }
      for (const { job } of call) if (job.vectors.length === job.texts.length) this.#end(job, null);
    }
    this.#isComputing = false;
  }

  /** The next texts, in order, that fit into one call. */
  #nextCall(): { job: Job; text: Int32Array }[] {
    const call: { job: Job; text: Int32Array }[] = [];
    let tokens = 0;
    for (const job of this.#jobs)
      for (let at = job.vectors.length; at < job.texts.length; at++) {
        const text = job.texts[at];
        if (call.length === this.#sequences || tokens + text.length > this.#batch) return call;
        tokens += text.length;
        call.push({ job, text });
      }
    return call;
  }

  /** @param reason null: the vectors are ready */
  #end(job: Job, reason: unknown): void {
    const place = this.#jobs.indexOf(job);
    if (place < 0) return;
    this.#jobs.splice(place, 1);
    if (reason === null) job.resolve(job.vectors);
    else job.reject(reason);
  }
}

function disposed(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the executor was disposed');
}
