// The end of a text, wherever the borders of its pieces are.
import { describe, expect, it } from 'vitest';
import { StopStrings } from '../../../src/serve/text/stop-strings.js';
import { Random } from '../../support/engine-bench.js';

/** Passes pieces, and the rest at the end. */
function pass(stops: readonly string[], pieces: readonly string[], keeps = false) {
  const found = new StopStrings(stops, keeps);
  const passed = pieces.map((piece) => found.push(piece));
  const stop = passed.find((each) => each.stop !== null)?.stop ?? null;
  return { parts: [...passed.map(({ text }) => text), found.end()], stop };
}

/** Character by character: the stop string that is whole first, the longest of several. */
function expected(stops: readonly string[], text: string, keeps: boolean) {
  for (let end = 1; end <= text.length; end++) {
    const whole = stops.filter((stop) => text.slice(0, end).endsWith(stop));
    if (whole.length === 0) continue;
    const stop = whole.reduce((longest, other) => (other.length > longest.length ? other : longest));
    return { text: text.slice(0, keeps ? end : end - stop.length), stop };
  }
  return { text, stop: null };
}

describe('stop strings', () => {
  it.each([false, true])('end the same text wherever its pieces end (kept: %s)', (keeps) => {
    const random = new Random(7);
    let numFound = 0;
    const word = (most: number) =>
      Array.from({ length: 1 + random.below(most) }, () => 'ab'[random.below(2)]).join('');
    for (let round = 0; round < 5000; round++) {
      const stops = Array.from({ length: 1 + random.below(4) }, () => word(5));
      const text = word(20);
      const pieces: string[] = [];
      for (let at = 0; at < text.length; ) {
        const length = random.below(4);
        pieces.push(text.slice(at, at + length));
        at += length;
      }
      const { parts, stop } = pass(stops, pieces, keeps);
      expect({ text: parts.join(''), stop }).toEqual(expected(stops, text, keeps));
      if (stop !== null) numFound++;
    }
    expect(numFound).toBeGreaterThan(1000);
  });

  it('hold back no more than what may begin one', () => {
    expect(pass(['\n\nEnd'], ['Hi', '.\n', '\nE', 'h', '\n']).parts).toEqual([
      'Hi',
      '.',
      '',
      '\n\nEh',
      '',
      '\n',
    ]);
  });

  it('let nothing pass behind the end', () => {
    expect(pass(['stop'], ['a st', 'op it', ' now'])).toEqual({ parts: ['a ', '', '', ''], stop: 'stop' });
  });

  it('pass everything at once where there are none', () => {
    expect(pass([], ['a', 'b'])).toEqual({ parts: ['a', 'b', ''], stop: null });
  });
});
