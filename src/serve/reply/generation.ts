import type { Engine } from '../../engine/engine.js';
import type { RequestResult } from '../../engine/outputs/outputs.js';
import type { RequestStream } from '../../engine/streams/request-stream.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { GenerationRequest } from '../api/generation-request.js';
import type { ServedModel } from '../api/served-model.js';
import { Choice } from './choice.js';
import type { Choices } from './choices.js';
import { PromptScores } from './likely-tokens.js';

/** The token counts of a request, as in OpenAI's API. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Receives the choices of a generation. */
export interface GenerationReader {
  /** A choice has text to take, or has ended. */
  changed(choice: Choice): void;
}

/** Counts the events of generations. */
export interface GenerationWatch {
  /** All choices were submitted. */
  came(numChoices: number, maxTokens: number): void;
  /** Further tokens of a choice have come, with the milliseconds since the previous tokens. */
  generated(ms: number): void;
  /** A choice has ended without failing. */
  ended(result: RequestResult): void;
}

/**
 * The choices of one HTTP request: `n` for each prompt, each a request of the engine. If one of
 * them fails, the others are ended.
 */
export class Generation {
  /** By index: the choices of the first prompt come first. */
  readonly choices: readonly Choice[];
  /** The id of the reply; the ids of the engine's requests begin with it. */
  readonly id: string;
  readonly #streams: readonly RequestStream[];
  readonly #request: GenerationRequest;

  /**
   * Submits all choices.
   * @param all distributes the engine's outputs to the choices
   * @param grammars of the choices, one for each; null if no format constrains them
   * @throws the errors of `Engine.submit`; then no choice is submitted
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
    }: {
      readonly reader: GenerationReader;
      readonly watch: GenerationWatch | null;
      readonly grammars: readonly Grammar[] | null;
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
    this.#streams = submitAll(all.engine, model, request, { id, scores, grammars });
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

  /** Why one of the choices failed; null if none did. */
  get failure(): unknown {
    return this.choices.find(({ failure }) => failure !== null)?.failure ?? null;
  }

  /** The number of tokens of all prompts. */
  get numPromptTokens(): number {
    return this.#request.prompts.reduce((sum, { length }) => sum + length, 0);
  }

  /** The number of tokens of all choices so far. */
  get numOutputTokens(): number {
    return this.choices.reduce((sum, { numTokens }) => sum + numTokens, 0);
  }

  /** Aborts unfinished choices, because the client has left or a choice has failed. */
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
   * The number of prompt tokens that a cache had.
   * @param results of the choices, by index; null if the choice failed
   */
  numCachedTokens(results: readonly (RequestResult | null)[]): number {
    const { n } = this.#request;
    // The choices of a prompt share its blocks. Only the first choice found blocks that existed
    // before.
    return results.reduce((sum, result, i) => (i % n === 0 ? sum + (result?.numCachedTokens ?? 0) : sum), 0);
  }

  /** Counts the tokens. All choices must have ended without failing. */
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

/** The fields of a generation's requests besides the client's own. */
interface Submission {
  readonly id: string;
  /**
   * Receive the log-probabilities of the prompt, one for each choice; null if they are not wanted.
   */
  readonly scores: readonly PromptScores[] | null;
  /** The grammar of each choice; null if they have none. */
  readonly grammars: readonly Grammar[] | null;
}

function submitAll(
  engine: Engine,
  { vocabulary }: ServedModel,
  request: GenerationRequest,
  { id, scores, grammars }: Submission,
): RequestStream[] {
  const { prompts, n, maxTokens, minTokens, ignoreEos, priority, cacheSalt, sampling } = request;
  const { endOfText, endTokens = [] } = vocabulary;
  // All of these tokens end an answer. The scheduler knows one of them, the one that `ignore_eos`
  // disables.
  const stopTokenIds = ignoreEos ? request.stopTokenIds : [...request.stopTokenIds, ...endTokens];
  const streams: RequestStream[] = [];
  try {
    for (const prompt of prompts) {
      for (let i = 0; i < n; i++) {
        const number = streams.length;
        // Cached tokens are not computed, so they would have no log-probabilities.
        const salt = scores === null ? cacheSalt : `${id}-${number}`;
        const params = paramsOf(sampling, i);
        const stream = engine.submit({
          id: `${id}-${number}`,
          prompt,
          // A prompt is computed only to generate a first token.
          maxTokens: Math.max(1, maxTokens),
          minTokens,
          eosTokenId: endOfText,
          ignoreEos,
          stopTokenIds,
          params: scores === null ? params : { ...params, prompt_logprobs: scores[number] },
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

/**
 * Each choice of a prompt has its own seed, as in vLLM. With equal seeds all choices would be the
 * same text.
 */
function paramsOf(sampling: GenerationRequest['sampling'], choice: number): GenerationRequest['sampling'] {
  if (sampling.seed === undefined || choice === 0) return sampling;
  const seed = sampling.seed + choice;
  return { ...sampling, seed: Number.isSafeInteger(seed) ? seed : choice - sampling.seed };
}
