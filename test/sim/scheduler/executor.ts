import type { EntryResult, PlanFacts } from '../audit/facts.js';
import { END_TOKEN, mix, type Text } from '../shared/text.js';
import type { Holding, Lost, Memory } from './memory.js';

/** One entry of a step, with all that the device knows of it. */
interface Row extends Holding {
  handle: number;
  text: Text;
  computed: number;
  scheduled: number;
  samples: number;
  drafts: readonly number[];
  fails: boolean;
}

/** One step that was dispatched. */
export interface Dispatched {
  readonly step: number;
  readonly rows: readonly Row[];
  readonly zeroed: readonly number[];
  /** The blocks that the device loses before it runs the step, and reports with it. */
  readonly lost: readonly Lost[];
  /** Called once every step before it was executed, and before it is. */
  readonly before: () => void;
  results: EntryResult[] | null;
}

/** A device that runs steps one after the other, whenever the simulation calls it. */
export class Executor {
  readonly #memory: Memory;
  /** Dispatched and not answered, oldest first. */
  readonly #steps: Dispatched[] = [];
  /** Called with the faults of the device. */
  readonly #wrong: (what: string) => void;

  constructor(memory: Memory, wrong: (what: string) => void) {
    this.#memory = memory;
    this.#wrong = wrong;
  }

  get steps(): readonly Dispatched[] {
    return this.#steps;
  }

  /** Whether every step up to this one was executed. */
  isSettled(step: number): boolean {
    for (const dispatched of this.#steps) {
      if (dispatched.step > step) return true;
      if (dispatched.results === null) return false;
    }
    return true;
  }

  dispatch(
    plan: PlanFacts,
    holdings: readonly Holding[],
    texts: readonly Text[],
    drafts: readonly (readonly number[])[],
    fails: (entry: number) => boolean,
    lost: readonly Lost[],
    before: () => void,
  ): void {
    const entries = plan.entries.map(({ handle, computed, scheduled, samples }, i): Row => {
      const { name, rows, rowTurns } = holdings[i];
      const device = { handle, computed, scheduled, samples, drafts: drafts[i], fails: fails(i) };
      return { name, rows, rowTurns, text: texts[i], ...device };
    });
    const { step, zeroed } = plan;
    this.#steps.push({ step, rows: entries, zeroed, lost, before, results: null });
  }

  /** Executes the oldest step that was not yet; false if there is none. */
  execute(): boolean {
    const next = this.#steps.find(({ results }) => results === null);
    if (next === undefined) return false;
    next.before();
    this.#memory.zero(next.zeroed);
    for (const each of next.lost) this.#memory.lose(each);
    next.results = this.#run(next.rows);
    return true;
  }

  /** Takes the oldest step out, executed. */
  shift(): Dispatched & { results: EntryResult[] } {
    const [oldest] = this.#steps;
    if (oldest.results === null) this.execute();
    this.#steps.shift();
    return oldest as Dispatched & { results: EntryResult[] };
  }

  /** Every entry is written before any is read: one may have hit what another fills in the same step. */
  #run(rows: readonly Row[]): EntryResult[] {
    // A state that only this step makes is there for nobody yet.
    const states = rows.map((row) => this.#memory.firstWrongState(row.text, row, row.computed));
    const results = rows.map((row) => this.#write(row));
    for (const [i, wrongAt] of states.entries()) {
      if (wrongAt < 0 || rows[i].fails) continue;
      results[i].wrongAt = wrongAt;
      this.#spoil(rows[i]);
    }
    for (let again = true; again; ) {
      again = false;
      for (const [i, row] of rows.entries()) {
        if (row.fails || results[i].wrongAt >= 0) continue;
        results[i].wrongAt = this.#memory.firstWrong(row.text, row, row.computed);
        if (results[i].wrongAt < 0) continue;
        // A result that was computed from wrong data is wrong, and so is every result from that.
        again = true;
        this.#spoil(row);
      }
    }
    return results;
  }

  #spoil(row: Row): void {
    this.#memory.write(null, row, row.computed, row.computed + row.scheduled - row.drafts.length);
  }

  #write(row: Row): { tokens: number[]; failed: boolean; wrongAt: number } {
    if (row.fails) return { tokens: [], failed: true, wrongAt: -1 };
    const { text, computed, scheduled, drafts, samples } = row;
    const known = computed + scheduled - drafts.length;
    let accepted = 0;
    while (samples > 0 && accepted < drafts.length && drafts[accepted] === text.token(known + accepted))
      accepted++;
    const wrong = this.#memory.write(text, row, computed, known + accepted);
    if (wrong !== null) this.#wrong(wrong);
    const count = samples === 0 ? 0 : accepted + 1;
    const tokens = Array.from({ length: count }, (_, i) => text.token(known + i));
    return { tokens, failed: false, wrongAt: -1 };
  }
}

/** Drafts for the tokens from a position on: some right, some wrong. */
export function draft(text: Text, position: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => {
    const right = text.token(position + i);
    return mix(right, position) % 3 === 0 ? END_TOKEN + 1 : right;
  });
}
