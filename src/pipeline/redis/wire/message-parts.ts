// A message of a pipeline as a list of parts, and back, with all checks.
import { isCount, isObject } from '../../../base/checks.js';
import { ERROR_CODES, type ErrorCode } from '../../../base/errors.js';
import type { EndReason } from '../../../engine/outputs/outputs.js';
import type { Chunk } from '../../transport/chunk.js';
import type {
  PipelineMessage,
  StageEnd,
  StageFailure,
  StageFigures,
  StageOutput,
  StageSubmission,
} from '../../transport/messages.js';

type Kind = PipelineMessage['kind'];
/** The form of a message on the wire: the number of its kind, then its parts in a fixed order. */
export type Wired = readonly [number, ...unknown[]];

/** Kinds in the order of their numbers on the wire. New kinds are added at the end. */
const KINDS: readonly Kind[] = [
  ...(['submit', 'chunk', 'taken', 'abort', 'ping', 'explain'] as const),
  ...(['output', 'ended', 'failed', 'pong', 'explained'] as const),
];
const NUMBERS = new Map(KINDS.map((kind, i) => [kind, i]));

/** Converts a message to its form on the wire. */
export function toWire(message: PipelineMessage): Wired {
  return [NUMBERS.get(message.kind) as number, ...parts(message)];
}

function parts(message: PipelineMessage): unknown[] {
  switch (message.kind) {
    case 'submit': {
      const { key, id, client, from, to, wants, prompt, fields } = message.submission;
      return [key, id, client, from, to, wants, prompt, fields];
    }
    case 'chunk': {
      const { number, tokens, extras, isLast, fields } = message.chunk;
      return [message.key, number, tokens, extras, isLast, fields ?? null];
    }
    case 'taken':
      return [message.key, message.number];
    case 'abort':
      return [message.key];
    case 'ping':
      return [message.client, message.number];
    case 'explain':
      return [message.client, message.key, message.ask];
    case 'output': {
      const { tokens, extras, finishReason, stopReason } = message.output;
      return [message.key, message.stage, message.number, tokens, extras, finishReason, stopReason];
    }
    case 'ended':
      return [message.key, message.stage, message.numOutputs, message.end];
    case 'failed': {
      // The error object itself is not sent, because it is valid only in one process.
      const { code, message: text } = message.failure;
      return [message.key, message.stage, code, text];
    }
    case 'pong':
      return [message.stage, message.number, message.keys, message.figures];
    case 'explained':
      return [message.ask, message.text];
  }
}

/** Converts a received value to a message; null: it is none. Never throws. */
export function fromWire(wired: unknown): PipelineMessage | null {
  if (!Array.isArray(wired)) return null;
  const [number, ...rest] = wired;
  const kind = isCount(number) ? KINDS[number] : undefined;
  return kind === undefined ? null : READERS[kind](rest);
}

const READERS: Readonly<Record<Kind, (parts: readonly unknown[]) => PipelineMessage | null>> = {
  submit([key, id, client, from, to, wants, prompt, fields]) {
    const names =
      [key, id, client].every(isText) && [from, to].every((name) => name === null || isText(name));
    if (!names || typeof wants !== 'boolean' || !isTokens(prompt) || !isObject(fields)) return null;
    const submission = { key, id, client, from, to, wants, prompt, fields } as StageSubmission;
    return { kind: 'submit', submission };
  },
  chunk([key, number, tokens, extras, isLast, fields]) {
    if (!isText(key) || !isCount(number) || number === 0 || typeof isLast !== 'boolean') return null;
    if (!isTokens(tokens) || !isExtras(extras, tokens) || !(fields === null || isObject(fields))) return null;
    const chunk: Chunk = { number, tokens, extras, isLast, ...(fields === null ? {} : { fields }) };
    return { kind: 'chunk', key, chunk };
  },
  taken([key, number]) {
    return isText(key) && isCount(number) ? { kind: 'taken', key, number } : null;
  },
  abort([key]) {
    return isText(key) ? { kind: 'abort', key } : null;
  },
  ping([client, number]) {
    return isText(client) && isCount(number) ? { kind: 'ping', client, number } : null;
  },
  explain([client, key, ask]) {
    return isText(client) && isText(key) && isCount(ask) ? { kind: 'explain', client, key, ask } : null;
  },
  output([key, stage, number, tokens, extras, finishReason, stopReason]) {
    if (!isText(key) || !isText(stage) || !isCount(number) || !isTokens(tokens) || !isExtras(extras, tokens))
      return null;
    if (!isEndReason(finishReason, true) || !isStopReason(stopReason)) return null;
    const output = { tokens, extras, finishReason, stopReason } as StageOutput;
    return { kind: 'output', key, stage, number, output };
  },
  ended([key, stage, numOutputs, end]) {
    if (!isText(key) || !isText(stage) || !isCount(numOutputs) || !isEnd(end)) return null;
    return { kind: 'ended', key, stage, numOutputs, end };
  },
  failed([key, stage, code, message]) {
    if (!isText(key) || !isText(stage) || !isText(code) || !isText(message)) return null;
    const failure: StageFailure = {
      code: Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : UNKNOWN,
      message,
    };
    return { kind: 'failed', key, stage, failure };
  },
  pong([stage, number, keys, figures]) {
    if (!isText(stage) || !isCount(number) || !isFigures(figures)) return null;
    return isTexts(keys) ? { kind: 'pong', stage, number, keys, figures } : null;
  },
  explained([ask, text]) {
    return isCount(ask) && isText(text) ? { kind: 'explained', ask, text } : null;
  },
};

/** Replaces the unknown code of a failure from a newer stage. */
const UNKNOWN: ErrorCode = 'ERR_BLOCKSTEP_REQUEST';
const END_REASONS: readonly EndReason[] = ['stop', 'length', 'abort'];

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTokens(value: unknown): value is Int32Array {
  return value instanceof Int32Array;
}

function isExtras(value: unknown, tokens: Int32Array): value is readonly unknown[] | null {
  return value === null || (Array.isArray(value) && value.length === tokens.length);
}

function isEndReason(value: unknown, mayLack: boolean): boolean {
  return (mayLack && value === null) || END_REASONS.includes(value as EndReason);
}

function isStopReason(value: unknown): boolean {
  return value === null || typeof value === 'number' || isText(value);
}

function isEnd(value: unknown): value is StageEnd {
  if (!isObject(value)) return false;
  const { finishReason, stopReason, numPromptTokens, numOutputTokens, numCachedTokens } = value;
  const { numPreemptions, firstTokenMs, endedMs } = value;
  return (
    isEndReason(finishReason, false) &&
    isStopReason(stopReason) &&
    [numPromptTokens, numOutputTokens, numCachedTokens, numPreemptions].every(isCount) &&
    (firstTokenMs === null || typeof firstTokenMs === 'number') &&
    typeof endedMs === 'number'
  );
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isText);
}

function isFigures(value: unknown): value is StageFigures {
  if (!isObject(value)) return false;
  const { requests, parked, chunksIn, chunksOut, troubles } = value;
  return [requests, parked, chunksIn, chunksOut].every(isCount) && isTexts(troubles);
}
