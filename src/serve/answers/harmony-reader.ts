import { type AnswerReader, type AnswerSink, LONGEST_CALL } from './answer-reader.js';
import { argumentsOf } from './forms/json-values.js';
import { MarkerCutter } from './marker-search.js';
import { TrimmedContent } from './trimmed-content.js';

const MESSAGE = '<|message|>';
const CHANNEL = '<|channel|>';
const START = '<|start|>';
/** All markers of gpt-oss's format. */
export const HARMONY_MARKERS: readonly string[] = [
  START,
  CHANNEL,
  MESSAGE,
  '<|constrain|>',
  '<|end|>',
  '<|call|>',
  '<|return|>',
];
/** Markers that end a message. */
const ENDS = [START, '<|end|>', '<|call|>', '<|return|>'];
/** Markers that end the header of a message. */
const HEAD_ENDS = [MESSAGE, ...ENDS];
/** The maximum length of a message header, in characters. */
const LONGEST_HEAD = 1000;
const RECIPIENT = /\bto=(?:functions\.)?([\w.:-]+)/;

/**
 * Splits an answer in gpt-oss's format. Such an answer is a sequence of messages, each with a
 * header that names its channel and its recipient. The channel `analysis` holds reasoning, messages
 * to a function are tool calls, and all others are for the user.
 */
export class HarmonyReader implements AnswerReader {
  readonly #sink: TrimmedContent;
  readonly #takesCalls: boolean;
  readonly #cutter = new MarkerCutter({
    wanted: () => (this.#head === null ? ENDS : HEAD_ENDS),
    pass: (text) => this.#pass(text),
    mark: (marker) => {
      if (marker === MESSAGE && this.#head !== null) this.#open(this.#head);
      else this.#close();
    },
  });
  /** The header that is being read; null while a message is being read. */
  #head: string | null = '';
  /** The destination of the message. */
  #goal: 'reasoning' | 'content' | 'call' = 'content';
  #name = '';
  #body = '';

  /** @param takesCalls whether the request offered tools to the model */
  constructor(sink: AnswerSink, takesCalls: boolean) {
    this.#sink = new TrimmedContent(sink, true);
    this.#takesCalls = takesCalls;
  }

  push(piece: string): void {
    this.#cutter.push(piece);
  }

  end(): void {
    this.#cutter.end();
    this.#close();
    this.#sink.end();
  }

  #pass(text: string): void {
    if (text === '') return;
    if (this.#head !== null) {
      this.#head += text;
      if (this.#head.length > LONGEST_HEAD) this.#noHead(this.#head);
    } else if (this.#goal === 'content') this.#sink.content(text);
    else if (this.#goal === 'reasoning') this.#sink.reasoning(text);
    else {
      this.#body += text;
      if (this.#body.length > LONGEST_CALL) this.#giveUp();
    }
  }

  /** Text without a header is for the user. */
  #noHead(text: string): void {
    this.#head = null;
    this.#goal = 'content';
    this.#sink.content(text);
  }

  #open(head: string): void {
    this.#head = null;
    const recipient = RECIPIENT.exec(head);
    if (recipient !== null && this.#takesCalls) {
      this.#goal = 'call';
      this.#name = recipient[1];
      this.#body = '';
    } else this.#goal = head.includes(`${CHANNEL}analysis`) ? 'reasoning' : 'content';
  }

  /** A message has ended, and the next header begins. */
  #close(): void {
    const head = this.#head;
    if (head === null && this.#goal === 'call') this.#call();
    else if (head !== null && !head.includes(CHANNEL) && !/^\s*(?:assistant\s*)?$/.test(head))
      this.#sink.content(head);
    this.#head = '';
  }

  #call(): void {
    const args = argumentsOf(this.#body);
    if (args === null) this.#giveUp();
    else this.#sink.call({ name: this.#name, arguments: args });
  }

  #giveUp(): void {
    this.#goal = 'content';
    this.#sink.content(this.#body);
    this.#body = '';
  }
}
