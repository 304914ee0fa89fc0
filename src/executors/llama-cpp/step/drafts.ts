import type { StepTables } from '../../../core/tables.js';
import type { ExecutorPlan, FlatTokens } from '../../../engine/executor/executor.js';
import { IntList } from '../cells/int-list.js';

/** The shortest match before a draft, and the length at which the search stops. */
const LEAST_MATCH = 2;
const GOOD_MATCH = 5;
/** Most places that are searched for one draft, the latest first. */
const MOST_PLACES = 32;

/**
 * Drafts by prompt lookup, as vLLM's `ngram`: the tokens that followed an earlier occurrence of the
 * last tokens. The class keeps the text of every request that samples, 4 bytes a token.
 */
export class Drafts {
  readonly #most: number;
  readonly #texts = new Map<number, IntList>();

  /** @param most drafts of a request in one step */
  constructor(most: number) {
    this.#most = most;
  }

  /** Reads the texts of a step's entries that are not kept yet. To be called inside `execute`. */
  read(plan: ExecutorPlan, tables: StepTables): void {
    if (this.#most === 0) return;
    for (let i = 0; i < plan.numRequests; i++) {
      if (plan.maxOutputTokens[i] === 0) continue;
      const length = plan.numComputedTokens[i] + plan.numScheduledTokens[i] - plan.numDraftTokens[i];
      const { handle } = plan.requests[i];
      const kept = this.#texts.get(handle);
      if (kept?.length === length) continue;
      // The text is new, got another chunk, or lost a token.
      const text = kept ?? new IntList();
      text.clear();
      text.extend(length);
      tables.readTokens(i, 0, text.values.subarray(0, length));
      this.#texts.set(handle, text);
    }
  }

  /** Adds the tokens of an answer to the texts, and drafts their continuation. */
  next(plan: ExecutorPlan, { tokens, counts }: FlatTokens): FlatTokens | undefined {
    if (this.#most === 0) return undefined;
    const drafts = new IntList();
    const draftCounts = new Int32Array(plan.numRequests);
    let at = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      if (counts[i] === 0) continue;
      const text = this.#texts.get(plan.requests[i].handle);
      for (let k = 0; k < counts[i]; k++) text?.push(tokens[at + k]);
      at += counts[i];
      if (text !== undefined) draftCounts[i] = this.#draft(text, drafts);
    }
    return { tokens: drafts.values.slice(0, drafts.length), counts: draftCounts };
  }

  forget(handles: readonly number[]): void {
    for (const handle of handles) this.#texts.delete(handle);
  }

  #draft({ values, length }: IntList, into: IntList): number {
    const text = values.subarray(0, length);
    const last = text[length - 1];
    let best = -1;
    let most = LEAST_MATCH - 1;
    let place = length - 1;
    for (let looked = 0; looked < MOST_PLACES && place > 0 && most < GOOD_MATCH; looked++) {
      place = text.lastIndexOf(last, place - 1);
      if (place < 0) break;
      let match = 1;
      while (match < GOOD_MATCH && place - match >= 0 && text[place - match] === text[length - 1 - match])
        match++;
      if (match > most) {
        most = match;
        best = place;
      }
    }
    if (best < 0) return 0;
    const count = Math.min(this.#most, length - 1 - best);
    for (let k = 1; k <= count; k++) into.push(text[best + k]);
    return count;
  }
}
