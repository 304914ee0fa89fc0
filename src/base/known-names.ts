import { distance } from 'fastest-levenshtein';
import { BlockstepError, show } from './errors.js';

/** An object with every name of `T`. It does not compile if it lacks a name, or has a name that `T` does not have. */
export type NamesOf<T> = { readonly [name in keyof Required<T>]: unknown };

/** The names that an object of options may have. */
export interface KnownNames {
  /** What the names belong to, for the message: `the options of a Scheduler`. */
  readonly what: string;
  readonly names: ReadonlySet<string>;
  /** What to say of a name that people know from elsewhere, by its plain form (`plain`). */
  readonly words: ReadonlyMap<string, string>;
}

/** Characters of names that a message lists at most. */
const MOST_LISTED = 340;
/** A name is near if at most one letter in so many differs. */
const NEARNESS = 3;

/**
 * The names that an object may have.
 * @param words hints for unknown names, whatever their spelling: `{ temperature: 'it belongs into params' }`
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
 * Refuses an object that has a name which nobody reads: such a mistake would stay silent. Enumerable names count, inherited
 * ones too. Values are not read.
 * @throws ERR_BLOCKSTEP_BAD_ARG with the unknown name and what was probably meant; whatever a proxy throws
 */
export function checkNames(value: object, known: KnownNames): void {
  for (const name in value) {
    if (known.names.has(name) || isEveryObjects(name)) continue;
    throw unknownName(known, name);
  }
}

/** The hint for an unknown name: `did you mean maxNumSeqs?`. Empty if no known name is near. */
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
 * The hint for a field that an object lacks: which of its names was probably meant as that field, as in
 * `; did you mean tokens by "token"?`. Empty if none of its names is near. For objects that may have further names, as results do.
 */
export function insteadOf(value: object, field: string): string {
  const known = knownNames<Record<string, unknown>>('', { [field]: true });
  for (const name in value) {
    if (name !== field && suggest(known, name) !== '') return `; did you mean ${field} by ${show(name)}?`;
  }
  return '';
}

/** A name that somebody put on Object.prototype stands in every object, and is not meant as an option. */
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

/** A name in plain form, without case and separators: `max_num_seqs` and `maxNumSeqs` are both `maxnumseqs`. */
function plain(name: string): string {
  // A message cannot show more, and comparing two names takes time by the product of their lengths.
  return name.slice(0, 100).replace(/[_-]/g, '').toLowerCase();
}
