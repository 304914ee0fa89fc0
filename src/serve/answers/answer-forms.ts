import { randomBytes } from 'node:crypto';
import type { Vocabulary } from '../text/vocabulary.js';
import type { AnswerReader, AnswerSink } from './answer-reader.js';
import { CallReader } from './call-reader.js';
import { ForcedReader } from './forced-reader.js';
import type { CallForm, ToolSchemas } from './forms/call-form.js';
import { HARMONY_MARKERS, HarmonyReader } from './harmony-reader.js';
import { MarkedVocabulary } from './marked-vocabulary.js';
import { HARMONY, REASONING_PARSERS, TOOL_CALL_PARSERS } from './parsers.js';
import { type ReasoningForm, ReasoningReader } from './reasoning-reader.js';
import { TrimmedText } from './trimmed-text.js';

/** The way in which the answers to one request are parsed. */
export interface AnswerReading {
  /** Decodes the tokens of an answer to text, markers included. */
  readonly vocabulary: Vocabulary;
  open(sink: AnswerSink): AnswerReader;
  /** Makes the id of a tool call. */
  newId(): string;
}

/** The parts of a request that decide how its answers are parsed. */
export interface AnswersAsked {
  /** The tools that the model may call; null if none. */
  readonly tools: ToolSchemas | null;
  readonly prompt: Int32Array;
}

/**
 * The number of tokens at the end of a prompt that are searched for the marker that opens the
 * reasoning.
 */
const MOST_BEGIN_TOKENS = 32;

/** The formats in which a model writes its reasoning and its tool calls. */
export class AnswerForms {
  readonly #calls: CallForm | typeof HARMONY | null;
  readonly #reasoning: ReasoningForm | typeof HARMONY | null;
  readonly #newId: () => string;
  readonly #vocabulary: Vocabulary;
  /**
   * A vocabulary with the markers of all formats. It is built on first use, because the build is
   * expensive.
   */
  #marked: MarkedVocabulary | null = null;

  /** @param toolCallParser, reasoningParser names of formats; null if none */
  constructor(vocabulary: Vocabulary, toolCallParser: string | null, reasoningParser: string | null) {
    this.#vocabulary = vocabulary;
    this.#calls = toolCallParser === null ? null : TOOL_CALL_PARSERS[toolCallParser];
    this.#reasoning = reasoningParser === null ? null : REASONING_PARSERS[reasoningParser];
    const calls = this.#calls;
    this.#newId = calls !== null && calls !== HARMONY && calls.hasShortIds ? shortId : longId;
  }

  /** Says how the answers to a chat are parsed; null if an answer is plain text. */
  reading({ tools, prompt }: AnswersAsked): AnswerReading | null {
    const calls = tools === null ? null : this.#calls;
    const reasoning = this.#reasoning;
    if (calls === null && reasoning === null) return null;
    const vocabulary = this.#markedVocabulary();
    const newId = this.#newId;
    if (calls === HARMONY || reasoning === HARMONY)
      return { vocabulary, newId, open: (sink) => new HarmonyReader(sink, calls === HARMONY) };
    const openRest = (sink: AnswerSink, isBehind: boolean): AnswerReader =>
      calls === null
        ? new TrimmedText((text) => sink.content(text), isBehind)
        : new CallReader(calls, tools!, sink, isBehind);
    if (reasoning === null) return { vocabulary, newId, open: (sink) => openRest(sink, false) };
    const isInside = reasoning.isInside ?? this.#endsWith(prompt, reasoning.begin);
    return {
      vocabulary,
      newId,
      open: (sink) => new ReasoningReader(reasoning, sink, isInside, (isBehind) => openRest(sink, isBehind)),
    };
  }

  /**
   * Says how answers are parsed that a grammar constrains to tool calls.
   * @param name of the tool that must be called; null if any
   */
  forced(name: string | null): AnswerReading {
    return { vocabulary: this.#vocabulary, newId: this.#newId, open: (sink) => new ForcedReader(sink, name) };
  }

  /** Whether a prompt ends with a marker. White space may follow the marker. */
  #endsWith(prompt: Int32Array, marker: string): boolean {
    const vocabulary = this.#markedVocabulary();
    const tokens = Array.from(prompt.subarray(-MOST_BEGIN_TOKENS));
    return tokens
      .map((token) => vocabulary.textOf(token) ?? '')
      .join('')
      .trimEnd()
      .endsWith(marker);
  }

  #markedVocabulary(): MarkedVocabulary {
    this.#marked ??= new MarkedVocabulary(this.#vocabulary, this.#markers());
    return this.#marked;
  }

  #markers(): readonly string[] {
    const calls = this.#calls;
    const reasoning = this.#reasoning;
    if (calls === HARMONY || reasoning === HARMONY) return HARMONY_MARKERS;
    const ofCalls = calls?.markers.flatMap(({ begin, end }) => (end === null ? [begin] : [begin, end])) ?? [];
    return [
      ...ofCalls,
      ...(calls?.inner ?? []),
      ...(reasoning === null ? [] : [reasoning.begin, reasoning.end, ...(reasoning.inner ?? [])]),
    ];
  }
}

function longId(): string {
  return `call_${randomBytes(12).toString('hex')}`;
}

function shortId(): string {
  return randomBytes(5).toString('hex').slice(0, 9);
}
