import { type EntryFacts, type PlanFacts, type Seen, type Sight, Violation } from './facts.js';
import { firstNeeded, type GroupRule, mostLive, numSinks } from './group-rules.js';
import type { Ledger } from './ledger.js';
import type { StepAudit } from './step-audit.js';

/** Tokens of a request, see `GroupAudit`. */
interface Spans {
  readonly read: number;
  readonly left: number;
}

/** A block that can be found. */
export interface FoundBlock {
  readonly block: number;
  readonly group: number;
  readonly hash: string;
  /** The hash of the text that the block holds; null: it holds no whole text. */
  readonly print: number | null;
}

/**
 * The rows of KV cache groups (I22): a row has the places that the tokens of its request need, and
 * releases all others. A block stands at one place of one group, in the rows of all its holders.
 * Blocks that must be zeroed are named.
 */
export class GroupAudit {
  readonly #ledger: Ledger;
  readonly #steps: StepAudit;
  /** The prints of the blocks of each hash. */
  readonly #prints = new Map<string, number>();

  constructor(ledger: Ledger, steps: StepAudit) {
    this.#ledger = ledger;
    this.#steps = steps;
  }

  /** @param plan the one that was made in this call; null: the call made none */
  saw(sight: Sight, plan: PlanFacts | null): void {
    const { groups } = this.#ledger.rules;
    const everybody = [...sight.requests, ...sight.draining, ...sight.quarantined];
    for (const seen of everybody) for (const [g, group] of groups.entries()) this.#row(seen, group, g);
    this.#places(everybody);
    if (plan === null) return;
    const entries = new Map(plan.entries.map((entry) => [entry.handle, entry]));
    for (const seen of sight.requests) {
      const entry = entries.get(seen.handle);
      if (entry === undefined) continue;
      const spans = this.#spans(seen.handle, entry.computed, plan.step);
      for (const [g, group] of groups.entries()) {
        this.#scheduled(seen, group, g, entry.computed + entry.scheduled, spans);
        if (group.mode === 'align') this.#endsInBlock(seen, group, entry);
      }
    }
    this.#zeroed(sight, plan);
  }

  /**
   * A request gave all its blocks back: the groups one after the other, each from its last place to
   * its first, behind all free blocks. Blocks that no lookup finds go in front, if the rules demand
   * it.
   * @param rows its blocks before
   */
  freed(name: string, rows: readonly (readonly number[])[], { free, published }: Sight): void {
    const { unhashedFirst } = this.#ledger.rules.version;
    const isFree = new Set(free);
    const came = rows.map((row) => row.filter((block) => isFree.has(block)).reverse());
    const goesFirst = (block: number) => unhashedFirst && !published.has(block);
    const front = [...came].reverse().flatMap((row) => row.filter(goesFirst));
    const first = free.slice(0, front.length);
    if (first.join() !== front.join())
      throw new Violation('I22', `${name} frees [${front}] of its rows, the queue begins with [${first}]`);
    const back = came.flatMap((row) => row.filter((block) => !goesFirst(block)));
    const last = back.length === 0 ? [] : free.slice(-back.length);
    if (last.join() !== back.join())
      throw new Violation('I22', `${name} frees [${back}] of its rows, the queue ends with [${last}]`);
  }

  /** No step is in flight: every block that can be found holds the text of its hash (G1). */
  found(published: readonly FoundBlock[]): void {
    for (const { block, group, hash, print } of published) {
      if (print === null)
        throw new Violation('I22', `block ${block} of group ${group} can be found, and was not computed`);
      const known = this.#prints.get(hash) ?? print;
      if (known !== print)
        throw new Violation(
          'I22',
          `block ${block} of group ${group} is found as ${hash}, and holds other KV than before`,
        );
      this.#prints.set(hash, print);
    }
  }

  /** At any time: places are enough, only what has a window or a state lacks some, and no more than its cap is held. */
  #row({ id, rows }: Seen, group: GroupRule, g: number): void {
    const row = rows[g];
    const fail = (what: string): Violation =>
      new Violation('I22', `${id}, group ${g} (${group.type}): ${what} in [${row}]`);
    const live = row.filter((block) => block !== 0).length;
    if ((group.type === 'full' || group.type === 'sink') && live < row.length)
      throw fail('a place holds nothing');
    const most = mostLive(group, this.#ledger.rules);
    if (group.mode === 'align' && live > most) throw fail(`more than ${most} states are held`);
    const first = row.findIndex((block) => block !== 0);
    if (first >= 0 && group.mode !== 'align' && row.indexOf(0, first) >= 0)
      throw fail('a place behind others holds nothing');
  }

  /**
   * Behind how many tokens steps go on that may read the request's rows, and behind how many it lets go. All tokens in flight are kept for: those
   * of an earlier admission too, which read other rows, and those that a failed load has voided. Nobody reads for these: steps behind the load began
   * no earlier than where the request was taken back to.
   */
  #spans(handle: number, computed: number, step: number): Spans {
    if (this.#ledger.rules.stepsKept === 1) return { read: computed, left: computed };
    const { admittedStep } = this.#ledger.account(handle);
    const own = this.#steps
      .entriesSince(0)
      .filter((each) => each.step < step && each.entry.facts.handle === handle);
    const begins = own.filter((each) => each.step >= admittedStep).map(({ entry }) => entry.facts.computed);
    const inFlight = own.reduce((sum, { entry }) => sum + entry.facts.scheduled, 0);
    return { read: Math.min(computed, ...begins), left: Math.max(0, computed - inFlight) };
  }

  /** Of one that has its turn: exactly what its tokens need is there. @param after tokens behind the step */
  #scheduled({ id, rows }: Seen, group: GroupRule, g: number, after: number, { read, left }: Spans): void {
    const row = rows[g];
    const fail = (what: string): Violation =>
      new Violation(
        'I22',
        `${id}, group ${g} (${group.type}), from ${read} to ${after} tokens: ${what} in [${row}]`,
      );
    const places = Math.ceil(after / group.size);
    if (row.length < places) throw fail(`there are no ${places} places`);
    const first = Math.floor(firstNeeded(group, read) / group.size);
    if (group.mode === 'align') {
      if (row[places - 1] === 0) throw fail('there is no place for the state');
      if (read > 0 && row[first] === 0) throw fail('the state that it goes on from is gone');
      return;
    }
    row.forEach((block, place) => {
      if (place < Math.floor(firstNeeded(group, left) / group.size) && block !== 0)
        throw fail(`place ${place} is needed no more, and holds block ${block}`);
      if (place >= first && place < places && block === 0)
        throw fail(`place ${place} is needed, and holds nothing`);
    });
    const live = row.filter((block) => block !== 0).length;
    const most = mostLive(group, this.#ledger.rules) + Math.ceil(this.#ledger.rules.maxDrafts / group.size);
    if (live > most) throw fail(`more than ${most} blocks are held`);
  }

  /**
   * A lookup for the end of a block finds the state there. So no step begins inside the block and
   * goes past its end.
   */
  #endsInBlock({ id }: Seen, { size }: GroupRule, { computed, scheduled, drafts }: EntryFacts): void {
    const begun = computed % size;
    if (begun === 0 || begun + scheduled - drafts <= size || !this.#ledger.rules.version.wholeStates) return;
    throw new Violation('I22', `${id} computes ${computed}+${scheduled} past the end of a block of ${size}`);
  }

  #places(everybody: readonly Seen[]): void {
    const places = new Map<number, string>();
    for (const { id, rows } of everybody) {
      for (const [g, row] of rows.entries()) {
        for (const [place, block] of row.entries()) {
          if (block === 0) continue;
          const where = `place ${place} of group ${g}`;
          const other = places.get(block) ?? where;
          if (other !== where)
            throw new Violation('I22', `block ${block} is ${where} of ${id}, and ${other}`);
          places.set(block, where);
        }
      }
    }
    const sinks = numSinks(this.#ledger.rules);
    for (const block of places.keys())
      if (block <= sinks) throw new Violation('I22', `block ${block} of a sink is held`);
  }

  /** Beside states, new blocks of full attention are zeroed, and blocks with content are not. */
  #zeroed({ requests }: Sight, { entries, zeroed }: PlanFacts): void {
    const { groups } = this.#ledger.rules;
    const hasStates = groups.some(({ type }) => type === 'mamba');
    if (!hasStates) {
      if (zeroed.length > 0)
        throw new Violation('I22', `blocks [${zeroed}] are to be zeroed, and there are no states`);
      return;
    }
    const named = new Set(zeroed);
    const rows = new Map(requests.map(({ handle, rows }) => [handle, rows]));
    for (const { handle, taken } of entries) {
      for (const [g, { type }] of groups.entries()) {
        const row = rows.get(handle)?.[g] ?? [];
        const { from, until, found } = taken[g];
        for (const block of row.slice(from, until)) {
          if (type === 'full' && !named.delete(block))
            throw new Violation('I22', `block ${block} of group ${g} was taken, and is not zeroed`);
        }
        for (const block of row.slice(0, found))
          if (named.has(block)) throw new Violation('I22', `block ${block} holds KV, and is zeroed`);
      }
    }
  }
}
