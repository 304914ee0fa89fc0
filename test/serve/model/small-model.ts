// A model of few tokens whose executor reports its input.
import type { Executor, ExecutorPlan, Grammar, SamplingParams, TokenLogprobs } from '../../../src/index.js';
import { type ModelTokenizer, ModelVocabulary, type TextFormat } from '../../../src/serve/index.js';

const BEGIN = 256;
const END = 257;
const TURN_END = 258;
/** Special tokens by their names. */
const NAMES = new Map([
  [BEGIN, '<s>'],
  [END, '</s>'],
  [TURN_END, '<|end|>'],
]);

/** A tokenizer of one token for each byte, and three special ones. */
export class ByteTokenizer implements ModelTokenizer {
  readonly numTokens: number = 259;
  readonly beginToken: number;
  readonly endTokens = [END, TURN_END];

  constructor(beginToken = BEGIN) {
    this.beginToken = beginToken;
  }

  tokenize(text: string, addsSpecial: boolean, knowsSpecial: boolean): Int32Array {
    const tokens: number[] = addsSpecial && this.beginToken >= 0 ? [this.beginToken] : [];
    for (const part of text.split(knowsSpecial ? /(<s>|<\/s>|<\|end\|>)/ : /(?!)/)) {
      const special = [...NAMES].find(([, name]) => name === part);
      if (special !== undefined) tokens.push(special[0]);
      else for (const byte of Buffer.from(part)) tokens.push(byte);
    }
    return Int32Array.from(tokens);
  }

  piece(token: number, showsSpecial: boolean): Uint8Array {
    if (token < 256) return Uint8Array.of(token);
    return Buffer.from(showsSpecial ? (NAMES.get(token) ?? '') : '');
  }
}

/** The vocabulary of such a tokenizer. */
export const BYTES = new ModelVocabulary('bytes', new ByteTokenizer());

/** A grammar that allows everything and knows its format. */
export class NotedGrammar implements Grammar {
  readonly format: TextFormat;

  constructor(format: TextFormat) {
    this.format = format;
  }

  ready(): boolean {
    return true;
  }

  acceptTokens(): boolean {
    return true;
  }

  validateTokens(tokens: Int32Array): number {
    return tokens.length;
  }
}

/** An executor that says one text in every answer, and notes what it was asked for. */
export class Sayer implements Executor {
  readonly usesTables = false;
  /** The parameters of each request, in their order. */
  readonly params: unknown[] = [];
  readonly prompts: number[] = [];
  readonly grammars: (Grammar | null)[] = [];
  readonly salts: (string | undefined)[] = [];
  readonly #tokens: readonly number[];
  readonly #said = new Map<number, number>();

  /** @param tokens the answer, again and again */
  constructor(tokens: readonly number[]) {
    this.#tokens = tokens;
  }

  execute(plan: ExecutorPlan) {
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const tokens: number[] = [];
    const extras: TokenLogprobs[] = [];
    for (let i = 0; i < plan.numRequests; i++) {
      const { handle, params, numPromptTokens, grammar, cacheSalt } = plan.requests[i];
      const said = this.#said.get(handle) ?? 0;
      if (said === 0 && !this.#said.has(handle)) {
        this.params.push(params);
        this.prompts.push(numPromptTokens);
        this.grammars.push(grammar);
        this.salts.push(cacheSalt);
        const { prompt_logprobs: told } = (params ?? {}) as SamplingParams;
        for (let at = 1; at < numPromptTokens; at++)
          told?.add(at, { logprob: -at, top: [{ token: 120, logprob: -0.5 }] });
      }
      this.#said.set(handle, said + counts[i]);
      if (counts[i] === 0) continue;
      const token = this.#tokens[said % this.#tokens.length];
      tokens.push(token);
      const top = [
        { token, logprob: -0.5 },
        { token: 120, logprob: -1.5 },
        { token: 121, logprob: Number.NEGATIVE_INFINITY },
      ];
      extras.push({ logprob: -0.5, top });
    }
    return { tokens: Int32Array.from(tokens), counts, extras };
  }
}
