import type { SubjectOptions } from '../../subject.js';
import type { ReferenceRequest } from '../request.js';
import type { Faults } from './faults.js';
import type { ReferenceGroup } from './group.js';
import { NULL_BLOCK, type ReferencePool } from './pool.js';

/** The hits from which a request may start. */
export interface Hits {
  /** The places of each group. */
  readonly rows: readonly (readonly number[])[];
  readonly tokens: number;
}

/** One place in all groups of a spec: a block of each, or null where the place holds nothing. */
type Place = readonly number[] | null;

/** Groups with equal specs: a place hits only if it hits in all of them. */
interface Spec {
  readonly groups: readonly ReferenceGroup[];
  readonly blockSize: number;
  /** The last block of a hit is dropped, so that the drafter computes it again. */
  readonly isEagle: boolean;
}

export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** vLLM's KVCacheCoordinator: finds what several groups have in common. */
export class Lookup {
  readonly #pool: ReferencePool;
  readonly #faults: Faults;
  readonly #hashBlockSize: number;
  readonly #numGroups: number;
  /** Full ones first, otherwise in the order of their first groups. */
  readonly #specs: readonly Spec[];
  /** The longest hit of one spec in the present lookup. */
  #longest = 0;
  /** With the fault `partialHits`: the tokens of each spec's hit in the present lookup. */
  readonly #ends = new Map<Spec, number>();
  /** Every hit of several groups is a multiple of it. */
  readonly alignment: number;
  /** With the fault `partialHits`, where it applies: hits are multiples of the tokens that a hash covers. */
  readonly isPartial: boolean;

  constructor(
    groups: readonly ReferenceGroup[],
    pool: ReferencePool,
    options: SubjectOptions,
    hashBlockSize: number,
    faults: Faults,
  ) {
    this.#pool = pool;
    this.#faults = faults;
    this.#hashBlockSize = hashBlockSize;
    this.#numGroups = groups.length;
    const multiple = (a: number, b: number) => (a / greatestCommonDivisor(a, b)) * b;
    this.alignment = groups.map(({ blockSize }) => blockSize).reduce(multiple);
    const canEndInside = ({ blockSize, isFull, spec }: ReferenceGroup) =>
      isFull || spec.type === 'mamba' || blockSize === hashBlockSize;
    const isCoarse = ({ blockSize, spec }: ReferenceGroup) =>
      spec.mode === 'align' && blockSize > hashBlockSize;
    this.isPartial =
      faults.partialHits && groups.length > 1 && groups.every(canEndInside) && groups.some(isCoarse);
    const isEagle = eagleRule(groups, options);
    const specs = new Map<string, ReferenceGroup[]>();
    for (const group of groups) specs.set(group.kind, [...(specs.get(group.kind) ?? []), group]);
    const list = [...specs.values()].map((of) => ({
      groups: of,
      blockSize: of[0].blockSize,
      isEagle: of.some(isEagle),
    }));
    const isFull = ({ groups: [first] }: Spec) => first.isFull;
    this.#specs = [...list.filter(isFull), ...list.filter((spec) => !isFull(spec))];
  }

  /** Whether a group's spec has layers of a drafter. */
  isEagle(group: ReferenceGroup): boolean {
    return this.#specs.some(({ groups, isEagle }) => isEagle && groups.includes(group));
  }

  /** The cached blocks that a request may start from; its last token is never among their tokens. */
  match(request: ReferenceRequest): Hits {
    const most = request.numTokens - 1;
    const found = new Map<Spec, Place[]>();
    this.#longest = 0;
    const tokens =
      this.#numGroups === 1 ? this.#matchOne(request, most, found) : this.#matchAll(request, most, found);
    request.junction = this.#longest > tokens ? this.#longest : 0;
    const rows: number[][] = [];
    for (const [{ groups, blockSize }, places] of found) {
      const isWhole = (this.isPartial ? Math.ceil(tokens / blockSize) : tokens / blockSize) === places.length;
      if (!isWhole && !this.#faults.G1 && !this.#faults.G2) {
        throw new Error(`${request.id} hits ${tokens} tokens and ${places.length} blocks of ${blockSize}`);
      }
      for (const [i, { index }] of groups.entries()) {
        rows[index] = places.map((place) => (place === null ? NULL_BLOCK : place[i]));
      }
    }
    return { rows, tokens };
  }

  #matchOne(request: ReferenceRequest, most: number, found: Map<Spec, Place[]>): number {
    const [spec] = this.#specs;
    const places = this.#find(spec, request, most, spec.isEagle);
    found.set(spec, places);
    return places.length * spec.blockSize;
  }

  /** A fixed point: each spec shortens what the others have found, until none does. */
  #matchAll(request: ReferenceRequest, most: number, found: Map<Spec, Place[]>): number {
    const [first] = this.#specs;
    /** Specs whose dropped block is known to be there at the present length. */
    const verified = new Set<Spec>();
    for (let tokens = most; ; ) {
      let length = tokens;
      for (const spec of this.#specs) {
        const isKnown = spec.groups[0].isFull && found.has(spec);
        length = this.#shorten(spec, request, length, most, found, verified);
        if (!isKnown) this.#longest = Math.max(this.#longest, length);
      }
      const isStable = length >= tokens;
      if (!isStable) tokens = length;
      if (!isStable && !(this.#specs.length === 2 && first.groups[0].isFull)) continue;
      for (const [spec, places] of found) {
        if (!spec.groups[0].isFull || (this.#faults.G2 && spec !== first)) continue;
        const whole = tokens / spec.blockSize;
        places.length = Math.min(places.length, this.isPartial ? Math.ceil(whole) : Math.floor(whole));
      }
      return tokens;
    }
  }

  /** The tokens, at most `length`, that one spec has. */
  #shorten(
    spec: Spec,
    request: ReferenceRequest,
    length: number,
    most: number,
    found: Map<Spec, Place[]>,
    verified: Set<Spec>,
  ): number {
    const { groups, blockSize } = spec;
    if (groups[0].isFull && found.has(spec))
      return this.isPartial
        ? Math.min(length, this.#ends.get(spec) ?? 0)
        : Math.floor(length / blockSize) * blockSize;
    // A Mamba group drops no block, so it must not look one block further.
    const drops = spec.isEagle && (this.#faults.G1 || groups[0].spec.type !== 'mamba');
    const isWide = drops && !verified.has(spec);
    const margin = this.isPartial ? this.#hashBlockSize : blockSize;
    const until = isWide ? Math.min(length + margin, most) : length;
    const places = this.isPartial
      ? this.#findInside(spec, request, until, isWide)
      : this.#find(spec, request, until, isWide);
    found.set(spec, places);
    const hit = this.isPartial ? (this.#ends.get(spec) ?? 0) : places.length * blockSize;
    if (isWide) verified.add(spec);
    else if (hit < length) verified.clear();
    return hit;
  }

  /** The longest hit of a spec in the first `most` tokens. */
  #find(spec: Spec, request: ReferenceRequest, most: number, isEagle: boolean): Place[] {
    switch (spec.groups[0].spec.type) {
      case 'sliding':
        return this.#findWindow(spec, request, most, isEagle);
      case 'chunked':
        return this.#findChunk(spec, request, most);
      case 'mamba':
        return this.#findState(spec, request, most);
      default:
        return this.#findRun(spec, request, most, isEagle);
    }
  }

  /** The blocks of one place, if every group has one. */
  #at(spec: Spec, request: ReferenceRequest, place: number): Place {
    return this.#endingAt(spec, request, ((place + 1) * spec.blockSize) / this.#hashBlockSize);
  }

  /** The blocks that end with the last of so many hashes, be they full or not. */
  #endingAt({ groups }: Spec, { names }: ReferenceRequest, end: number): Place {
    if (end > names.length) return null;
    const blocks = groups.map(({ index }) => this.#pool.find(names[end - 1], index));
    return blocks.every((block) => block !== undefined) ? blocks : null;
  }

  #isAligned({ blockSize }: Spec, places: number): boolean {
    return (places * blockSize) % this.alignment === 0;
  }

  #align(spec: Spec, places: Place[]): void {
    while (!this.#isAligned(spec, places.length)) places.pop();
  }

  #findFull(spec: Spec, request: ReferenceRequest, most: number): Place[] {
    const places: Place[] = [];
    while ((places.length + 1) * spec.blockSize <= most) {
      const place = this.#at(spec, request, places.length);
      if (place === null) break;
      places.push(place);
    }
    return places;
  }

  #findRun(spec: Spec, request: ReferenceRequest, most: number, isEagle: boolean): Place[] {
    const places = this.#findFull(spec, request, most);
    if (isEagle) places.pop();
    this.#align(spec, places);
    return places;
  }

  /**
   * The longest hit where blocks need not be full. For states it is the last state in the cache,
   * otherwise full blocks and a part of one more.
   */
  #findInside(spec: Spec, request: ReferenceRequest, most: number, isEagle: boolean): Place[] {
    const size = this.#hashBlockSize;
    const perBlock = spec.blockSize / size;
    const isState = spec.groups[0].spec.type === 'mamba';
    const places = isState ? [] : this.#findFull(spec, request, most);
    const begin = places.length * perBlock;
    let hit = places.length * spec.blockSize;
    const last = Math.min(Math.floor(most / size), isState ? Infinity : begin + perBlock - 1);
    for (let end = last; end > begin; end--) {
      const place = this.#endingAt(spec, request, end);
      if (place === null) continue;
      while (places.length < Math.ceil(end / perBlock) - 1) places.push(null);
      places.push(place);
      hit = end * size;
      break;
    }
    if (isEagle && hit > 0) hit -= size;
    places.length = Math.ceil(hit / spec.blockSize);
    this.#ends.set(spec, hit);
    return places;
  }

  /** From the right, the first run that fills a window; a run that reaches the front counts however short it is. */
  #findWindow(spec: Spec, request: ReferenceRequest, most: number, isEagle: boolean): Place[] {
    const { window = 0 } = spec.groups[0].spec;
    const needed = Math.ceil((window - 1) / spec.blockSize) + (isEagle ? 1 : 0);
    const places = new Array<Place>(Math.floor(most / spec.blockSize)).fill(null);
    let run = 0;
    let isFound = false;
    for (let i = places.length - 1; i >= 0 && !isFound; i--) {
      const place = this.#at(spec, request, i);
      if (place === null) {
        run = 0;
        continue;
      }
      // The hit must end on a multiple of all block sizes, for eagle after its last block was dropped.
      if (run === 0 && !this.#isAligned(spec, isEagle ? i : i + 1)) continue;
      places[i] = place;
      run++;
      isFound = run >= needed;
      if (isFound) places.length = i + run;
    }
    if (!isFound) {
      places.length = run;
      this.#align(spec, places);
    }
    if (isEagle && places.length > 0) {
      places.pop();
      this.#align(spec, places);
    }
    return places;
  }

  /** Chunks before the last one count as computed: nothing attends to them. */
  #findChunk(spec: Spec, request: ReferenceRequest, most: number): Place[] {
    const { chunk = 1 } = spec.groups[0].spec;
    const start = Math.floor((Math.floor(most / chunk) * chunk) / spec.blockSize);
    const places = new Array<Place>(start).fill(null);
    while ((places.length + 1) * spec.blockSize <= most) {
      const place = this.#at(spec, request, places.length);
      if (place === null) break;
      places.push(place);
    }
    const end = start * spec.blockSize;
    const isInside = places.length === start && end % chunk > 0;
    return isInside && !this.#faults.G17 ? this.#findChunk(spec, request, end) : places;
  }

  /** The last state that is there: a place is all that was before it. */
  #findState(spec: Spec, request: ReferenceRequest, most: number): Place[] {
    for (let i = Math.floor(most / spec.blockSize) - 1; i >= 0; i--) {
      const place = this.#at(spec, request, i);
      if (place !== null && this.#isAligned(spec, i + 1)) return [...new Array<Place>(i).fill(null), place];
    }
    return [];
  }
}

/** Groups that are flagged; without any flag all of them, where the drafter's layers share the cache. */
function eagleRule(
  groups: readonly ReferenceGroup[],
  { speculativeMethod, numSpeculativeTokens }: SubjectOptions,
): (group: ReferenceGroup) => boolean {
  const isFlagged = ({ spec }: ReferenceGroup) => spec.eagle === true;
  if (groups.some(isFlagged)) return isFlagged;
  return () => speculativeMethod === 'eagle' && numSpeculativeTokens > 0;
}
