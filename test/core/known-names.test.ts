// Unknown option names are refused, with the nearest known name as a suggestion.
import { describe, expect, it } from 'vitest';
import { checkNames, insteadOf, knownNames, suggest } from '../../src/base/known-names.js';
import { hostile, MINE } from '../misuse/bad-values.js';
import { codeOf, errorOf } from '../misuse/bench.js';

interface Options {
  maxNumSeqs?: number;
  blockSize?: number;
  now?: () => number;
}
const known = knownNames<Options>(
  'the options',
  { maxNumSeqs: true, blockSize: true, now: true },
  { batch_size: 'did you mean maxNumSeqs?', clock: 'now is the clock' },
);
const REMOVABLE = { configurable: true, writable: true };
const messageOf = (value: object): string => (errorOf(() => checkNames(value, known)) as Error).message;

describe('checkNames', () => {
  it('takes known names, also with undefined, and inherited ones; symbols and hidden names are nobody’s', () => {
    checkNames({}, known);
    checkNames({ maxNumSeqs: undefined, blockSize: 16 }, known);
    checkNames(Object.create({ blockSize: 1 }) as object, known);
    checkNames({ [Symbol('s')]: 1 }, known);
    checkNames(Object.defineProperty({}, 'hidden', { value: 1 }), known);
    checkNames(Object.create(null) as object, known);
  });

  it('refuses what is unknown, by name: also inherited, undefined, or a name that every object has', () => {
    for (const value of [{ x: 1 }, { x: undefined }, Object.create({ x: 1 }) as object])
      expect(messageOf(value)).toBe(
        'the options must have names among maxNumSeqs, blockSize, now only, got "x"',
      );
    for (const name of ['toString', 'constructor', '__proto__', 'hasOwnProperty'])
      expect(messageOf(JSON.parse(`{${JSON.stringify(name)}: 1}`) as object)).toContain(`got "${name}"`);
    expect(codeOf(() => checkNames({ x: 1 }, known))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('reads no value, and passes on what a proxy throws', () => {
    checkNames(Object.defineProperty({}, 'now', { get: hostile, enumerable: true }), known);
    expect(errorOf(() => checkNames(new Proxy({}, { ownKeys: hostile }), known))).toBe(MINE);
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(() => checkNames(proxy, known)).toThrow(TypeError);
  });

  it('does not mind what somebody put on Object.prototype', () => {
    Object.defineProperty(Object.prototype, 'polluted', { value: 1, enumerable: true, ...REMOVABLE });
    try {
      checkNames({ now: 1 }, known);
      expect(messageOf({ polluted2: 1 })).toContain('polluted2');
    } finally {
      delete (Object.prototype as { polluted?: number }).polluted;
    }
  });
});

describe('a suggestion', () => {
  it('is the nearest name, in any spelling, and only if it is near', () => {
    const meant = (name: string): string => suggest(known, name);
    for (const name of ['maxNumSeq', 'max_num_seqs', 'MaxNumSeqs', 'max-num-seqs', 'maxNumSecs', 'maxSeqs'])
      expect([name, meant(name)]).toEqual([name, 'did you mean maxNumSeqs?']);
    expect(meant('blocksize')).toBe('did you mean blockSize?');
    for (const name of ['', 'id', 'x', 'policy', 'seqs', 'block'.repeat(1000)])
      expect([name, meant(name)]).toEqual([name, '']);
    // A name of megabytes is not compared with every known name.
    expect(meant(`${'_'.repeat(100)}maxNumSeqs`)).toBe('');
  });

  it('of a name from elsewhere is what is said of it, in any spelling', () => {
    for (const name of ['batchSize', 'batch_size', 'BATCH-SIZE'])
      expect(suggest(known, name)).toBe('did you mean maxNumSeqs?');
    expect(messageOf({ clock: 1 })).toBe(
      'the options must have known names only, got "clock": now is the clock',
    );
  });

  it('for a field that is lacking is the name that is near it', () => {
    expect(insteadOf({ startMs: 1, token: 2 }, 'tokens')).toBe('; did you mean tokens by "token"?');
    expect(insteadOf({ startMs: 1, tokens: undefined }, 'tokens')).toBe('');
  });
});
