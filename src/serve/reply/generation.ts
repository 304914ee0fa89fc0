import type { Engine } from '../../engine/engine.js';
import type { RequestResult } from '../../engine/outputs/outputs.js';
import type { RequestStream } from '../../engine/streams/request-stream.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { GenerationRequest } from '../api/generation-request.js';
import type { ServedModel } from '../api/served-model.js';
import { Choice } from './choice.js';
import type { Choices } from './choices.js';
import { PromptScores } from './likely-tokens.js';

/** How many tokens a request had, as OpenAI's API counts them. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Who is told of the choices of a generation. */
export interface GenerationReader {
  /** A choice has text to take, or has ended. */
  changed(choice: Choice): void;
}

/** Who counts what becomes of generations. */
export interface GenerationWatch {
  /** All choices were submitted. */
  came(numChoices: number, maxTokens: number): void;
  /** A choice got tokens behind others, so many milliseconds after those. */
  generated(ms: number): void;
  /** A choice has ended, and not failed. */
  ended(result: RequestResult): void;
}

/**
 * The choices of one HTTP request: `n` for each prompt, and each a request of the engine. They live and die together: one that fails
 * ends the others.
 */
export class Generation {
  /** By index: first the choices of the first prompt. */
  readonly choices: readonly Choice[];
  /** The id of the reply; those of the engine's requests begin with it. */
  readonly id: string;
  readonly #streams: readonly RequestStream[];
  readonly #request: GenerationRequest;

  /**
   * Submits all choices.
   * @param all gives the choices what the engine brings
   * @param grammars of the choices, one for each; null: nothing holds them to a format
   * @param adapter of all choices; '': none
   * @throws what `Engine.submit` throws; then none is submitted
   */
  constructor(
    all: Choices,
    model: ServedModel,
    request: GenerationRequest,
    id: string,
    {
      reader,
      watch,
      grammars,
      adapter,
    }: {
      readonly reader: GenerationReader;
      readonly watch: GenerationWatch | null;
      readonly grammars: readonly Grammar[] | null;
      readonly adapter: string;
    },
  ) {
    this.#request = request;
    this.id = id;
    all.read();
    const { vocabulary } = model;
    const { stop, keepsStop, minTokens, echoes, n, sampling, maxTokens, prompts } = request;
    const { answer, isParallel } = request;
    const scores = request.scoresPrompts
      ? Array.from({ length: prompts.length * n }, () => new PromptScores(sampling.logprobs ?? 0))
      : null;
    this.#streams = submitAll(all.engine, model, request, { id, scores, grammars, adapter });
    const changed = (choice: Choice): void => reader.changed(choice);
    const onTokens = watch === null ? null : (ms: number): void => watch.generated(ms);
    this.choices = this.#streams.map((stream, index) => {
      const prompt = Math.floor(index / n);
      const echo = echoes?.[prompt] ?? '';
      const { logprobs = null } = sampling;
      const scored = scores === null ? null : { tokens: prompts[prompt], scores: scores[index] };
      const isEcho = maxTokens === 0;
      const options = {
        vocabulary,
        stop,
        keepsStop,
        minTokens,
        echo,
        scored,
        isEcho,
        onTokens,
        logprobs,
        answer,
        isParallel,
      };
      return new Choice(index, stream, options, changed);
    });
    for (const choice of this.choices) all.add(choice);
    if (watch !== null) this.#watch(watch);
  }

  get hasEnded(): boolean {
    return this.choices.every(({ hasEnded }) => hasEnded);
  }

  /** Why one of the choices failed; null: none did. */
  get failure(): unknown {
    return this.choices.find(({ failure }) => failure !== null)?.failure ?? null;
  }

  /** Tokens of all prompts. */
  get numPromptTokens(): number {
    return this.#request.prompts.reduce((sum, { length }) => sum + length, 0);
  }

  /** Tokens that all choices have got so far. */
  get numOutputTokens(): number {
    return this.choices.reduce((sum, { numTokens }) => sum + numTokens, 0);
  }

  /** Ends what has not ended: the client has left, or a choice has failed. */
  abort(): void {
    for (const stream of this.#streams) stream.abort();
  }

  #watch(watch: GenerationWatch): void {
    watch.came(this.choices.length, this.#request.maxTokens);
    for (const stream of this.#streams)
      stream.result().then(
        (result) => watch.ended(result),
        () => {},
      );
  }

  /**
   * Tokens of all prompts that a cache had.
   * @param results of the choices, by index; null: the choice failed
   */
  numCachedTokens(results: readonly (RequestResult | null)[]): number {
    const { n } = this.#request;
    // The choices of a prompt share its blocks: what the first one found was there before.
    return results.reduce((sum, result, i) => (i % n === 0 ? sum + (result?.numCachedTokens ?? 0) : sum), 0);
  }

  /** Counts the tokens. All choices have ended, and none has failed. */
  async usage(): Promise<Usage> {
    const results = await Promise.all(this.#streams.map((stream) => stream.result()));
    const prompt = this.numPromptTokens;
    const completion = this.numOutputTokens;
    return {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      prompt_tokens_details: { cached_tokens: this.numCachedTokens(results) },
    };
  }
}

/** What the requests of a generation have beside what its client wants. */
interface Submission {
  readonly id: string;
  /** Where the log-probabilities of the prompt go, for each choice; null: nobody wants them. */
  readonly scores: readonly PromptScores[] | null;
  /** The grammar of each choice; null: they have none. */
  readonly grammars: readonly Grammar[] | null;
  /** The adapter of all of them; '': none. */
  readonly adapter: string;
}

function submitAll(
  engine: Engine,
  { vocabulary }: ServedModel,
  request: GenerationRequest,
  { id, scores, grammars, adapter }: Submission,
): RequestStream[] {
  const { prompts, n, maxTokens, minTokens, ignoreEos, priority, cacheSalt, sampling } = request;
  const { endOfText, endTokens = [] } = vocabulary;
  // All of them end an answer, and the scheduler knows one that `ignore_eos` turns off.
  const stopTokenIds = ignoreEos ? request.stopTokenIds : [...request.stopTokenIds, ...endTokens];
  const streams: RequestStream[] = [];
  try {
    for (const prompt of prompts) {
      for (let i = 0; i < n; i++) {
        const number = streams.length;
        // What is found in the cache is not computed, and nothing is known of it then.
        const salt = scores === null ? cacheSalt : `${id}-${number}`;
        const params = paramsOf(sampling, i);
        const stream = engine.submit({
          id: `${id}-${number}`,
          prompt,
          // A prompt is computed for its first token alone.
          maxTokens: Math.max(1, maxTokens),
          minTokens,
          eosTokenId: endOfText,
          ignoreEos,
          stopTokenIds,
          params: scores === null ? params : { ...params, prompt_logprobs: scores[number] },
          ...(adapter !== '' && { adapter }),
          ...(grammars !== null && { grammar: grammars[number] }),
          ...(priority !== undefined && { priority }),
          ...(salt !== undefined && { cacheSalt: salt }),
        });
        streams.push(stream);
      }
    }
    return streams;
  } catch (error) {
    for (const stream of streams) stream.abort();
    throw error;
  }
}

/** Each choice of a prompt has a seed of its own, as in vLLM: all of them would be the same text otherwise. */
function paramsOf(sampling: GenerationRequest['sampling'], choice: number): GenerationRequest['sampling'] {
  if (sampling.seed === undefined || choice === 0) return sampling;
  const seed = sampling.seed + choice;
  return { ...sampling, seed: Number.isSafeInteger(seed) ? seed : choice - sampling.seed };
}
