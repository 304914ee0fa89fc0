import type { CharSet } from '../language/char-set.js';
import type { GbnfRules } from './gbnf-rules.js';
import { GbnfStacks, type Spread, type Top } from './gbnf-stacks.js';

/**
 * Places at which a text may stand at once, where a single place has no more ways to go on. Each is a stack to llama.cpp, which compares each with
 * all others: on one core 1,000 took 5 ms a token, 4,000 took 60 ms, and some grammars double them with each character.
 */
const MOST_PLACES = 1000;
/** Steps of a search, of which some ten millions are done in a second; and how many more for each rule. */
const MOST_WORK = 150_000;
const WORK_PER_RULE = 20;
/** Steps of a rule before the next one has its turn, which become more from turn to turn. */
const FIRST_SHARE = 100;
/** Parts above each other, in stacks that are still looked at. */
const MOST_DEPTH = 2500;
/** Lists of sets that are compared with each other. */
const MOST_COMPARED = 30;
/**
 * llama.cpp follows the characters of a token by every way to every place, without noticing that they meet again. So a character that repeats, as
 * in the longest tokens, may have so many ways.
 */
const LONGEST_RUN = 64;
const MOST_RUN_WAYS = 10_000;

/**
 * Looks for a text that may stand at very many places at once, or be read in very many ways. The texts of all rules are looked at side by side, so
 * that nothing hides behind a long text. Where a rule is in the way, it is passed as a whole, too. The search is broken off after a count of steps,
 * which does not depend on the machine.
 * @param ways how many ways a text has where each rule begins, and at most at one place
 * @throws Error that names a rule
 */
export function checkPlaces(
  rules: GbnfRules,
  root: number,
  ways: { readonly ofRule: Float64Array; readonly most: number },
): void {
  // One more for the end of the text, which is no way to go on.
  const search = new PlaceSearch(rules, Math.max(MOST_PLACES, ways.most + 1));
  const { stacks } = search;
  const starts = reachable(rules, root).filter((rule) => !rules.copies.has(rule));
  // The largest come last, which might take the time of all others.
  starts.sort((a, b) => ways.ofRule[a] - ways.ofRule[b]);
  const most = MOST_WORK + starts.length * WORK_PER_RULE;
  let open = starts.map((start) => new Frontier(start, rules.nameOf(start)));
  for (let share = FIRST_SHARE; open.length > 0 && stacks.work < most; share *= 4)
    open = open.filter((frontier) => {
      const end = Math.min(most, stacks.work + share);
      while (stacks.work < end && !frontier.isEmpty) search.go(frontier);
      return !frontier.isEmpty;
    });
}

/** The rules that a rule comes to, itself first. */
function reachable(rules: GbnfRules, root: number): number[] {
  const found = new Set([root]);
  for (const rule of found)
    for (const { path } of rules.get(rule)) for (const part of path) if (part >= 0) found.add(part);
  return [...found];
}

/** The sets of stacks that are still to be gone on from, from one rule on. */
class Frontier {
  /** The rule, until its beginning is there. */
  start: number | null;
  /** Its name. */
  readonly rule: string;
  /** [stacks for each top] sets, in the order in which they were found. */
  readonly #open = new Map<number, Pending[]>();
  /** The numbers of stacks for each top that there are, the largest last. */
  readonly #sizes: number[] = [];

  constructor(start: number, rule: string) {
    this.start = start;
    this.rule = rule;
  }

  get isEmpty(): boolean {
    return this.start === null && this.#sizes.length === 0;
  }

  add(pending: Pending): void {
    const { size } = pending;
    const same = this.#open.get(size);
    if (same !== undefined) {
      same.push(pending);
      return;
    }
    this.#open.set(size, [pending]);
    let at = this.#sizes.length;
    while (at > 0 && this.#sizes[at - 1] > size) at--;
    this.#sizes.splice(at, 0, size);
  }

  /**
   * What is to be gone on from next: where there are the most stacks for each top, since only those can become ever more; of several the one that
   * waits longest.
   */
  take(): Pending {
    const size = this.#sizes[this.#sizes.length - 1];
    const same = this.#open.get(size)!;
    const taken = same.shift()!;
    if (same.length === 0) {
      this.#open.delete(size);
      this.#sizes.pop();
    }
    return taken;
  }
}

interface Pending {
  readonly spread: Spread;
  /** Stacks for each top. */
  readonly size: number;
  /** The tops behind which it is still to be gone on together; null: nobody has looked. */
  ways: (readonly Top[])[] | null;
}

class PlaceSearch {
  readonly stacks: GbnfStacks;
  readonly #sets: readonly CharSet[];
  readonly #most: number;
  readonly #seen = new Set<number>();
  /** The sets that have a character in common, by the sets they are of. */
  readonly #common = new Map<string, readonly ReadonlySet<number>[]>();

  constructor(rules: GbnfRules, most: number) {
    this.stacks = new GbnfStacks(rules);
    this.#sets = rules.sets;
    this.#most = most;
  }

  #add(frontier: Frontier, spread: Spread): void {
    const { count, depth, tops } = this.stacks.get(spread.places);
    if (count > this.#most)
      throw new Error(
        `within the rule ${frontier.rule} a text may stand at more than ${this.#most} places at once, each of which is gone on with for every token`,
      );
    if (this.#seen.has(spread.places) || depth > MOST_DEPTH) return;
    this.#seen.add(spread.places);
    frontier.add({ spread, size: Math.floor(count / tops.length), ways: null });
  }

  /** Goes on one way: by a character that makes a difference, or over a rule. */
  go(frontier: Frontier): void {
    const { stacks } = this;
    if (frontier.start !== null) {
      const { start } = frontier;
      frontier.start = null;
      this.#add(frontier, stacks.begin(start));
      return;
    }
    const pending = frontier.take();
    pending.ways ??= this.#waysOf(pending.spread);
    const tops = pending.ways.pop();
    if (pending.ways.length > 0) frontier.add(pending);
    if (tops === undefined) return;
    const spreads = tops.map((top) => stacks.behind(top));
    const next = stacks.together(spreads);
    const count = spreads.reduce((sum, { places }) => sum + stacks.get(places).count, 0);
    if (count > stacks.get(next.places).count) this.#run(frontier, tops);
    this.#add(frontier, next);
  }

  /** The tops that are gone on from together: those of a rule, taken first, and those of a character. */
  #waysOf({ places, calls }: Spread): (readonly Top[])[] {
    const bySet = this.#by(this.stacks.get(places).tops);
    const ways = this.#inCommon([...bySet.keys()]).map((sets) => [...sets].flatMap((set) => bySet.get(set)!));
    return [...ways, ...this.#by(calls).values()];
  }

  /** Tops, by what stands there. */
  #by(tops: readonly Top[]): Map<number, Top[]> {
    const by = new Map<number, Top[]>();
    for (const top of tops) {
      const is = this.stacks.is(top);
      if (is === null) continue;
      const same = by.get(is);
      if (same === undefined) by.set(is, [top]);
      else same.push(top);
    }
    return by;
  }

  /** Counts the ways of a character that repeats. */
  #run(frontier: Frontier, tops: readonly Top[]): void {
    const { stacks } = this;
    const sets = new Set(tops.map((top) => stacks.is(top)));
    let ways: readonly (readonly [top: Top, count: number])[] = tops.map((top) => [top, 1]);
    for (let length = 2; length <= LONGEST_RUN && ways.length > 0 && ways.length <= MOST_COMPARED; length++) {
      const next = new Map<string, [top: Top, count: number]>();
      let sum = 0;
      for (const [from, count] of ways)
        for (const top of stacks.get(stacks.behind(from).places).tops) {
          const is = stacks.is(top);
          if (is === null || !sets.has(is)) continue;
          stacks.work += 2;
          sum += count;
          const known = next.get(top.join());
          if (known === undefined) next.set(top.join(), [top, count]);
          else known[1] += count;
        }
      if (sum > MOST_RUN_WAYS)
        throw new Error(
          `within the rule ${frontier.rule} a text of ${length} equal characters may be read in more than ${MOST_RUN_WAYS} ways`,
        );
      ways = [...next.values()];
    }
  }

  /** The largest lists of sets that have a character in common. @param sets as they stand in rules */
  #inCommon(sets: number[]): readonly ReadonlySet<number>[] {
    if (sets.length < 2) return sets.map((set) => new Set([set]));
    sets.sort((a, b) => a - b);
    this.stacks.work += sets.length;
    const key = sets.join();
    let common = this.#common.get(key);
    if (common === undefined) {
      common = this.#findCommon(sets);
      this.#common.set(key, common);
    }
    return common;
  }

  #findCommon(sets: readonly number[]): ReadonlySet<number>[] {
    const ends: [at: number, set: number, isFirst: boolean][] = [];
    for (const set of sets) {
      const ranges = this.#sets[-1 - set];
      for (let i = 0; i < ranges.length; i += 2)
        ends.push([ranges[i], set, true], [ranges[i + 1] + 1, set, false]);
    }
    ends.sort(([a, , isFirst], [b, , isOther]) => a - b || Number(isFirst) - Number(isOther));
    const found: Set<number>[] = [];
    const open = new Set<number>();
    let hasGrown = false;
    // Where one begins and another one ends before the next begins, as many as possible are open.
    for (const [, set, isFirst] of ends) {
      this.stacks.work += 2;
      if (!isFirst && hasGrown && !this.#isWithin(open, found)) found.push(new Set(open));
      if (isFirst) open.add(set);
      else open.delete(set);
      hasGrown = isFirst;
    }
    return found.length > MOST_COMPARED
      ? found
      : found.filter(
          (one) =>
            !this.#isWithin(
              one,
              found.filter((other) => other.size > one.size),
            ),
        );
  }

  #isWithin(one: ReadonlySet<number>, others: readonly ReadonlySet<number>[]): boolean {
    if (others.length > MOST_COMPARED) return false;
    return others.some((other) => {
      this.stacks.work += 2;
      for (const set of one) if (!other.has(set)) return false;
      return true;
    });
  }
}
