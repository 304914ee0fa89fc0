// Parsers of flag values: integers, counts, shares, the hash seed.
import { InvalidArgumentError } from 'commander';

/**
 * Parsers of flag values. Each throws commander's InvalidArgumentError; commander adds the flag and
 * the value to its message.
 */
export const parse = {
  /** An integer of any sign. The receiver of the value checks its range. */
  integer: (text: string): number => number(text, Number.isSafeInteger, 'an integer'),
  count: (text: string): number => number(text, (n) => Number.isSafeInteger(n) && n >= 1, 'an integer >= 1'),
  seed: (text: string): number =>
    number(text, (n) => Number.isInteger(n) && n >= 0 && n < 2 ** 32, 'an integer from 0 to 2^32 - 1'),
  /** Any number above 0, also with an exponent (1e9). */
  positive: (text: string): number => number(text, (n) => n > 0, 'a number > 0'),
  nonNegative: (text: string): number => number(text, (n) => n >= 0, 'a number >= 0'),
  share: (text: string): number => number(text, (n) => n >= 0 && n <= 1, 'a number from 0 to 1'),
  /** A fraction below 1. */
  part: (text: string): number => number(text, (n) => n >= 0 && n < 1, 'a number from 0 to less than 1'),
  /** A number of up to 128 bits: decimal digits, or 0x and hexadecimal digits. */
  hashSeed(text: string): bigint {
    if (/^(\d+|0x[0-9a-f]+)$/i.test(text)) {
      const value = BigInt(text);
      if (value < 2n ** 128n) return value;
    }
    throw new InvalidArgumentError('Expected a number from 0 to 2^128 - 1, decimal or 0x and hex digits.');
  },
  /** A list in JSON. The receiver checks its content. */
  list(text: string): unknown[] {
    try {
      const value: unknown = JSON.parse(text);
      if (Array.isArray(value)) return value;
    } catch (error) {
      throw new InvalidArgumentError(`Expected JSON (${(error as Error).message}).`);
    }
    throw new InvalidArgumentError('Expected a list in JSON.');
  },
};

function number(text: string, good: (value: number) => boolean, expected: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && good(value)) return value;
  throw new InvalidArgumentError(`Expected ${expected}.`);
}
