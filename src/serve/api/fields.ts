import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { type KnownNames, suggest } from '../../base/known-names.js';
import { ApiError, badField } from './api-error.js';

/** A lone surrogate is not a character: it cannot be encoded as UTF-8. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * The fields of a request's body, each read by its type. A field that is null counts as absent, as
 * in OpenAI's API. Every method throws an `ApiError` with status 400 that names the field, its
 * value and the expected values.
 */
export class Fields {
  readonly #body: Readonly<Record<string, unknown>>;
  /**
   * The prefix of these fields' names in messages: empty, or the name of the enclosing object with
   * a dot.
   */
  readonly #path: string;

  /** @param known the names that the body may have; other names are refused */
  constructor(body: unknown, known: KnownNames, path = '') {
    if (!isObject(body)) {
      if (path === '') throw new ApiError(400, `the body must be a JSON object, got ${show(body)}`);
      throw badField(path, show(body), 'an object');
    }
    this.#path = path === '' ? '' : `${path}.`;
    this.#body = body;
    for (const name of Object.keys(body)) if (!known.names.has(name)) throw this.#unknown(name, known);
  }

  /** The raw value; undefined if there is none. */
  get(name: string): unknown {
    return Object.hasOwn(this.#body, name) ? (this.#body[name] ?? undefined) : undefined;
  }

  /** The value as text for messages. Null and a missing field differ here. */
  shown(name: string): string {
    return Object.hasOwn(this.#body, name) ? show(this.#body[name]) : 'nothing';
  }

  /** The full name of a field, for messages. */
  nameOf(name: string): string {
    return this.#path + name;
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max)
      return value + 0;
    throw badField(this.nameOf(name), show(value), `an integer from ${min} to ${max}`);
  }

  number(name: string, min: number, max: number): number | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (typeof value === 'number' && value >= min && value <= max) return value + 0;
    throw badField(this.nameOf(name), show(value), `a number from ${min} to ${max}`);
  }

  boolean(name: string): boolean | undefined {
    const value = this.get(name);
    if (value === undefined || typeof value === 'boolean') return value;
    throw badField(this.nameOf(name), show(value), 'true or false');
  }

  text(name: string, maxLength: number): string | undefined {
    const value = this.get(name);
    return value === undefined ? undefined : checkText(this.nameOf(name), value, maxLength);
  }

  /** Reads a list. @param expected a description of the items */
  list(name: string, maxLength: number, expected: string): readonly unknown[] | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.length <= maxLength) return value;
    throw badField(this.nameOf(name), show(value), `a list of at most ${maxLength} ${expected}`);
  }

  /** The fields of an object within this one. */
  object(name: string, known: KnownNames): Fields | undefined {
    const value = this.get(name);
    return value === undefined ? undefined : new Fields(value, known, this.nameOf(name));
  }

  #unknown(name: string, known: KnownNames): ApiError {
    const param = this.nameOf(name.slice(0, 100));
    const meant = suggest(known, name);
    const message = `${show(param)} is no parameter that this server knows${meant === '' ? '' : `: ${meant}`}`;
    return new ApiError(400, message, { param, code: 'unknown_parameter' });
  }
}

/** Returns `value` if it is a string without lone surrogates. @throws ApiError */
export function checkText(name: string, value: unknown, maxLength: number): string {
  if (typeof value !== 'string') throw badField(name, show(value), 'a string');
  if (value.length > maxLength)
    throw badField(name, `${value.length} characters`, `a string of at most ${maxLength} characters`);
  if (LONE_SURROGATE.test(value)) throw badField(name, show(value), 'a string without lone surrogates');
  return value;
}

/** Returns `value` if it is a list of token ids. @throws ApiError */
export function checkTokens(name: string, value: readonly unknown[], size: number): Int32Array {
  const tokens = new Int32Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const token = value[i];
    if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token >= size)
      throw badField(`${name}[${i}]`, show(token), `a token id from 0 to ${size - 1}`);
    tokens[i] = token;
  }
  return tokens;
}
