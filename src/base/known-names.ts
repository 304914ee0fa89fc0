import { distance } from 'fastest-levenshtein';
import { BlockstepError, show } from './errors.js';

/** An object with every name of `T`. It does not compile if a name is missing or unknown. */
export type NamesOf<T> = { readonly [name in keyof Required<T>]: unknown };

/** The names that an object of options may have, and hints for foreign names. */
export interface KnownNames {
  /** The object in words, for the message: `the options of a Scheduler`. */
  readonly what: string;
  readonly names: ReadonlySet<string>;
  /** Hints for names from other systems, each under its plain form (`plain`). */
  readonly words: ReadonlyMap<string, string>;
}

/** A message lists the known names only if they have at most this many characters in all. */
const MOST_LISTED = 340;
/** A name is near another one if at most one letter in three differs. */
const NEARNESS = 3;

/**
 * Makes the list of the names that an object may have.
 * @param what the object in words, for the message: `the options of a Scheduler`
 * @param names an object with every known name
 * @param words hints for unknown names, whatever their spelling:
 * `{ temperature: 'it belongs into params' }`
 */
export function knownNames<T>(
  what: string,
  names: NamesOf<T>,
  words: Readonly<Record<string, string>> = {},
): KnownNames {
  const byPlainName = Object.entries(words).map(([name, word]) => [plain(name), word] as const);
  return { what, names: new Set(Object.keys(names)), words: new Map(byPlainName) };
}

/**
 * Refuses an object with an unknown name. Nobody would read that field, and the mistake would stay
 * silent. Enumerable names count, inherited names too. Values are not read. An error that a proxy
 * throws is passed on.
 * @throws ERR_BLOCKSTEP_BAD_ARG with the unknown name and the probably intended name
 */
export function checkNames(value: object, known: KnownNames): void {
  for (const name in value) {
    if (known.names.has(name) || isEveryObjects(name)) continue;
    throw unknownName(known, name);
  }
}

/**
 * The hint for an unknown name, for instance `did you mean maxNumSeqs?`. Empty without a known name
 * nearby or a special hint.
 */
export function suggest({ names, words }: KnownNames, name: string): string {
  const wanted = plain(name);
  let nearest = '';
  let least = Number.POSITIVE_INFINITY;
  for (const known of names) {
    const candidate = plain(known);
    const edits = distance(wanted, candidate);
    if (edits * NEARNESS > Math.max(wanted.length, candidate.length) || edits >= least) continue;
    nearest = known;
    least = edits;
  }
  const word = words.get(wanted);
  if (word !== undefined && least > 0) return word;
  return nearest === '' ? '' : `did you mean ${nearest}?`;
}

/**
 * The hint for an object that lacks a field: the name in the object that was probably meant as that
 * field, for instance `; did you mean tokens by "token"?`. Empty without a name nearby. Meant for
 * objects that may have further names, as the results of an executor do.
 */
export function insteadOf(value: object, field: string): string {
  const known = knownNames<Record<string, unknown>>('', { [field]: true });
  for (const name in value) {
    if (name !== field && suggest(known, name) !== '') return `; did you mean ${field} by ${show(name)}?`;
  }
  return '';
}

/**
 * Whether a name is a property of `Object.prototype`. Then every object has it, and nobody means it
 * as an option.
 */
function isEveryObjects(name: string): boolean {
  return Object.prototype.propertyIsEnumerable.call(Object.prototype, name);
}

function unknownName(known: KnownNames, name: string): BlockstepError {
  const meant = suggest(known, name);
  const list = [...known.names].join(', ');
  const expected = meant === '' && list.length <= MOST_LISTED ? `names among ${list}` : 'known names';
  const message = `${known.what} must have ${expected} only, got ${show(name)}${meant === '' ? '' : `: ${meant}`}`;
  return new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message);
}

/**
 * The plain form of a name, without case and separators: `max_num_seqs` and `maxNumSeqs` are both
 * `maxnumseqs`.
 */
function plain(name: string): string {
  // Names are cut, because a comparison takes time by the product of both lengths. A message shows
  // no more anyway.
  return name.slice(0, 100).replace(/[_-]/g, '').toLowerCase();
}
