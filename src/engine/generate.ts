import { addAbortListener } from 'node:events';
import { BlockstepError, badArgument, show } from '../base/errors.js';
import {
  type GenerateInput,
  type GenerateOptions,
  type GenerateResult,
  type GenerateSource,
  type ParsedGenerateOptions,
  parseGenerateOptions,
  parseSource,
} from './generate-options.js';
import type { RunLoop } from './loop/run-loop.js';
import { hasHalfRoom } from './requests/overload.js';
import type { Submitter } from './requests/submit.js';
import type { EngineState } from './state/engine-state.js';
import type { RequestStream } from './streams/request-stream.js';
import { isAborted, type SubmitInput } from './streams/submission.js';
import type { SubmitPlace } from './streams/submit-place.js';

/** The number of refused prompts between two turns of the event loop. */
const REFUSALS_A_TURN = 256;

type Source = Iterator<GenerateInput> | AsyncIterator<GenerateInput>;

/** See `Engine.generate`. The engine drives itself while there is a batch, and stops after the last, unless `run` was called. */
export async function generate(
  e: EngineState,
  loop: RunLoop,
  submitter: Submitter,
  call: {
    readonly prompts: GenerateSource;
    readonly options: GenerateOptions;
    readonly place: SubmitPlace | null;
  },
): Promise<GenerateResult[]> {
  submitter.checkOpen();
  const options = parseGenerateOptions(call.options);
  const batch = new Batch(e, (request) => submitter.submit(request, {}, call.place), options);
  loop.join();
  try {
    return await batch.run(call.prompts);
  } finally {
    loop.leave();
  }
}

/**
 * A batch of prompts in progress. The batch keeps up to twice as many requests in the engine as can
 * run, so that every step is full. It fills at most half of the queue, so that other clients find
 * room.
 */
class Batch {
  readonly #e: EngineState;
  readonly #submit: (input: SubmitInput) => RequestStream;
  readonly #options: ParsedGenerateOptions;
  readonly #results: GenerateResult[] = [];
  readonly #live = new Set<RequestStream>();
  #total: number | null = null;
  #done = 0;
  #failed = 0;
  #tokens = 0;
  /** The error that ends the whole batch early; null = none. */
  #broken: { readonly error: unknown } | null = null;
  /** Wakes `run` from its present wait. */
  #wake: () => void = () => {};

  constructor(e: EngineState, submit: (input: SubmitInput) => RequestStream, options: ParsedGenerateOptions) {
    this.#e = e;
    this.#submit = submit;
    this.#options = options;
  }

  /** @returns the results in the order of the prompts; rejects with the error that ended the batch early */
  async run(prompts: GenerateSource): Promise<GenerateResult[]> {
    const { signal } = this.#options;
    const { source, total } = parseSource(prompts);
    this.#total = total;
    if (signal !== null && isAborted(signal)) this.#break(signal.reason);
    const listener = signal === null ? null : addAbortListener(signal, () => this.#break(signal.reason));
    const { backlog } = this.#e.scheduler;
    try {
      await this.#feed(source);
      while (this.#live.size > 0) await this.#change();
    } catch (error) {
      this.#break(error);
      for (const stream of this.#live) stream.abort();
      throw error;
    } finally {
      listener?.[Symbol.dispose]();
      backlog.listeners.delete(this.#onRoom);
    }
    return this.#results;
  }

  async #feed(source: Source): Promise<void> {
    let index = 0;
    let isOver = false;
    try {
      for (; ; index++) {
        const next = await this.#next(source);
        if (next.done === true) break;
        await this.#start(index, next.value);
      }
      isOver = true;
    } finally {
      if (!isOver) leave(source);
    }
    this.#total = index;
  }

  /** The next prompt. Rejects as soon as the batch breaks, without waiting for the source. */
  #next(source: Source): Promise<IteratorResult<GenerateInput>> {
    this.#check();
    return new Promise((resolve, reject) => {
      this.#wake = () => this.#broken !== null && reject(this.#broken.error);
      Promise.resolve(source.next()).then(resolve, reject);
    });
  }

  /** Submits a prompt as soon as there is room for it. */
  async #start(index: number, input: GenerateInput): Promise<void> {
    try {
      const request = requestOf(input, this.#options.shared);
      while (!this.#hasRoom(request)) await this.#change();
      this.#follow(index, this.#submit(request));
    } catch (error) {
      this.#check();
      this.#fail(index, null, refusalOf(index, error));
      if (this.#failed % REFUSALS_A_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#check();
  }

  #hasRoom({ prompt }: SubmitInput): boolean {
    const { maxNumSeqs } = this.#e.scheduler.config;
    return this.#live.size < 2 * maxNumSeqs && hasHalfRoom(this.#e, Number(prompt?.length) || 0);
  }

  #follow(index: number, stream: RequestStream): void {
    this.#live.add(stream);
    stream.result().then(
      (result) => {
        this.#live.delete(stream);
        this.#tokens += result.tokens.length;
        this.#settle(index, result);
      },
      (error: unknown) => {
        this.#live.delete(stream);
        this.#fail(index, stream.id, error);
      },
    );
  }

  #fail(index: number, id: string | null, error: unknown): void {
    this.#failed++;
    this.#settle(index, { id, finishReason: 'error', error });
    if (this.#options.throws) this.#break(error);
  }

  #settle(index: number, result: GenerateResult): void {
    if (this.#broken !== null) return;
    this.#results[index] = result;
    this.#done++;
    try {
      this.#options.onProgress?.({
        done: this.#done,
        failed: this.#failed,
        total: this.#total,
        tokens: this.#tokens,
      });
    } catch (error) {
      this.#break(error);
    }
    this.#wake();
  }

  /** Ends the whole batch early. Only the first error counts. */
  #break(error: unknown): void {
    this.#broken ??= { error };
    this.#wake();
  }

  #check(): void {
    if (this.#broken !== null) throw this.#broken.error;
  }

  /**
   * Resolves when a request of the batch has ended, or when the queue has become shorter. Rejects
   * if the batch is broken.
   */
  async #change(): Promise<void> {
    this.#check();
    this.#e.scheduler.backlog.listeners.add(this.#onRoom);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#check();
  }

  readonly #onRoom = (): void => this.#wake();
}

/**
 * Tells an iterator that no more prompts are wanted. The batch neither awaits its answer nor
 * reports its errors.
 */
function leave(source: Source): void {
  Promise.resolve()
    .then(() => source.return?.())
    .catch(() => {});
}

/** Makes a request of a batch's prompt. */
function requestOf(input: GenerateInput, shared: Partial<SubmitInput>): SubmitInput {
  if (typeof input !== 'object' || input === null)
    throw badArgument('a prompt', show(input), 'token ids, or an object with a prompt');
  const request = ('prompt' in input ? { ...shared, ...input } : { ...shared, prompt: input }) as SubmitInput;
  if (request.resumable === true)
    throw badArgument('resumable', 'true', 'absent in a batch, where nobody adds chunks');
  return request;
}

/** The error that `submit` threw, with the index of its prompt in the message. */
function refusalOf(index: number, error: unknown): unknown {
  if (!(error instanceof BlockstepError)) return error;
  return new BlockstepError(error.code, `prompts[${index}]: ${error.message}`, { cause: error });
}
