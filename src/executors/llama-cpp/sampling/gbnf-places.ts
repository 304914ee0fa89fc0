// Searches for a text of a grammar with very many places at once.
import type { CharSet } from '../language/char-set.js';
import type { GbnfRules } from './gbnf-rules.js';
import { GbnfStacks, type Spread, type Top } from './gbnf-stacks.js';

/**
 * Most parse positions that a text may have at once. A single position with more continuations
 * raises the limit. llama.cpp has a stack for each position, and compares each stack with all
 * others. On one core 1,000 took 5 ms a token, 4,000 took 60 ms. Some grammars double them with
 * each character.
 */
const MOST_PLACES = 1000;
/**
 * Most steps of a search, and the additional steps for each rule. Some ten million steps are done
 * in a second.
 */
const MOST_WORK = 150_000;
const WORK_PER_RULE = 20;
/** Steps of a rule before the next rule has its turn. The number grows from turn to turn. */
const FIRST_SHARE = 100;
/** Depth of the deepest stacks that are still followed. */
const MOST_DEPTH = 2500;
/** Most lists of sets that are compared with each other. */
const MOST_COMPARED = 30;
/**
 * llama.cpp follows the characters of a token along every way to every position, and does not
 * notice when ways meet again. A repeated character, as in the longest tokens, can therefore have
 * this many ways.
 */
const LONGEST_RUN = 64;
const MOST_RUN_WAYS = 10_000;

/**
 * Looks for a text with very many positions at once, or very many readings. The search interleaves
 * the texts of all rules, so that a long text hides nothing. A rule in the way is also skipped as a
 * whole. The search stops after a count of steps, which does not depend on the machine.
 * @param ways the continuations at the begin of each rule, and the largest number at one place
 * @throws Error that names a rule
 */
export function checkPlaces(
  rules: GbnfRules,
  root: number,
  ways: { readonly ofRule: Float64Array; readonly most: number },
): void {
  // The end of the text counts too, although it has no continuation.
  const search = new PlaceSearch(rules, Math.max(MOST_PLACES, ways.most + 1));
  const { stacks } = search;
  const starts = reachable(rules, root).filter((rule) => !rules.copies.has(rule));
  // The largest rules come last, because they might use the time of all others.
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

/** The rules that a rule can reach, itself first. */
function reachable(rules: GbnfRules, root: number): number[] {
  const found = new Set([root]);
  for (const rule of found)
    for (const { path } of rules.get(rule)) for (const part of path) if (part >= 0) found.add(part);
  return [...found];
}

/** The open sets of stacks of one start rule. */
class Frontier {
  /** The start rule; null once its search has begun. */
  start: number | null;
  /** Name of the start rule. */
  readonly rule: string;
  /** [stacks for each top] open sets, in the order of discovery. */
  readonly #open = new Map<number, Pending[]>();
  /** The keys of `#open`, ascending. */
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
   * Removes and returns the next set: the set with the most stacks for each top, because only such sets can grow
   * forever. Among equals, the set that waited longest.
   */
  shift(): Pending {
    const size = this.#sizes[this.#sizes.length - 1];
    const same = this.#open.get(size)!;
    const first = same.shift()!;
    if (same.length === 0) {
      this.#open.delete(size);
      this.#sizes.pop();
    }
    return first;
  }
}

interface Pending {
  readonly spread: Spread;
  /** Stacks for each top. */
  readonly size: number;
  /** Groups of tops to continue from together; null: not computed yet. */
  ways: (readonly Top[])[] | null;
}

class PlaceSearch {
  readonly stacks: GbnfStacks;
  readonly #sets: readonly CharSet[];
  readonly #most: number;
  readonly #seen = new Set<number>();
  /** Cache of the sets with a common character, by the sets that were compared. */
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
        `within the rule ${frontier.rule} a text may stand at more than ${this.#most} places at once, and each place costs time for every token`,
      );
    if (this.#seen.has(spread.places) || depth > MOST_DEPTH) return;
    this.#seen.add(spread.places);
    frontier.add({ spread, size: Math.floor(count / tops.length), ways: null });
  }

  /** Takes one way: by a character that makes a difference, or over a rule. */
  go(frontier: Frontier): void {
    const { stacks } = this;
    if (frontier.start !== null) {
      const { start } = frontier;
      frontier.start = null;
      this.#add(frontier, stacks.begin(start));
      return;
    }
    const pending = frontier.shift();
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

  /**
   * Groups of tops to continue from together: the tops of a rule, which are taken first, and the
   * tops of a character.
   */
  #waysOf({ places, calls }: Spread): (readonly Top[])[] {
    const bySet = this.#by(this.stacks.get(places).tops);
    const ways = this.#inCommon([...bySet.keys()]).map((sets) => [...sets].flatMap((set) => bySet.get(set)!));
    return [...ways, ...this.#by(calls).values()];
  }

  /** Groups tops by the rule or set on them. */
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

  /** Counts the ways of a repeated character. */
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

  /** The largest lists of sets with a common character. @param sets as they occur in rules */
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
    // Between the begin of a range and the next end of a range, the most ranges are open.
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
