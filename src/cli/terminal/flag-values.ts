import { InvalidArgumentError } from 'commander';

/** Parsers of flag values. Each throws commander's InvalidArgumentError, to which commander adds flag and value. */
export const parse = {
  /** An integer of any sign; ranges are for those who use it. */
  integer: (text: string): number => number(text, Number.isSafeInteger, 'an integer'),
  count: (text: string): number => number(text, (n) => Number.isSafeInteger(n) && n >= 1, 'an integer >= 1'),
  seed: (text: string): number =>
    number(text, (n) => Number.isInteger(n) && n >= 0 && n < 2 ** 32, 'an integer from 0 to 2^32 - 1'),
  /** Exponents are fine. */
  positive: (text: string): number => number(text, (n) => n > 0, 'a number > 0'),
  nonNegative: (text: string): number => number(text, (n) => n >= 0, 'a number >= 0'),
  share: (text: string): number => number(text, (n) => n >= 0 && n <= 1, 'a number from 0 to 1'),
  /** A 128-bit number, decimal or 0x and hex digits. */
  hashSeed(text: string): bigint {
    if (/^(\d+|0x[0-9a-f]+)$/i.test(text)) {
      const value = BigInt(text);
      if (value < 2n ** 128n) return value;
    }
    throw new InvalidArgumentError('Expected a number from 0 to 2^128 - 1, decimal or 0x and hex digits.');
  },
};

function number(text: string, good: (value: number) => boolean, expected: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && good(value)) return value;
  throw new InvalidArgumentError(`Expected ${expected}.`);
}
