import { takeInt32Array, takeUint8Array } from '../../base/arrays.js';
import { badArgument, show } from '../../base/errors.js';
import { TOKEN_MAX } from '../../core/core.js';
import { checkFlatFields, takeStepResult } from '../../scheduler/calls/validate.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Drafts, StepResult, TakenResult } from '../../scheduler/plan/step-result.js';
import type { Request } from '../../scheduler/request/request.js';

const NO_BLOCKS: readonly unknown[] = [];

/** An executor's answer, read once. Its arrays lie over memory whose size cannot change. */
export interface TakenAnswer {
  /** A `TakenResult` if every row is good; else only its form was checked, and its rows are to be repaired. */
  readonly result: StepResult;
  /** Not checked yet; see `takeDrafts`. */
  readonly drafts: unknown;
  /** A copy, not checked yet; see `takeExtras`. */
  readonly extras: unknown;
  /** Ids of lost blocks, not checked: the scheduler counts ids that name no block. */
  readonly lostBlocks: readonly unknown[];
}

/**
 * Reads an answer and checks it, as a whole or, where rows are wrong, its form: two Int32Arrays, `tokens` and `counts`, and a count for
 * each entry of the plan.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an answer of another form, or what the answer's getters throw
 */
export function takeAnswer(plan: Plan, answer: unknown): TakenAnswer {
  if (typeof answer !== 'object' || answer === null) {
    throw badArgument('the answer', show(answer), 'an object with tokens and counts');
  }
  const { tokens, counts, errors, drafts, extras, lostBlocks } = answer as Record<string, unknown>;
  checkFlatFields(answer, tokens, counts);
  // Getters of these lists run here, before the check: they might change what was checked.
  const list = copyOf(extras);
  const lost = takeLost(lostBlocks);
  const result =
    takeGood(plan, { tokens, counts, errors } as StepResult) ?? takeForm(plan, tokens, counts, errors);
  return { result, drafts, extras: list, lostBlocks: lost };
}

/** The result of a step if every row of it is good; else null. */
function takeGood(plan: Plan, result: StepResult): TakenResult | null {
  try {
    const taken = takeStepResult(plan, result);
    return taken.isShort ? null : taken;
  } catch {
    return null;
  }
}

/** The result of a step in which rows may be wrong. @throws ERR_BLOCKSTEP_BAD_ARG for a result of another form */
function takeForm(plan: Plan, tokens: unknown, counts: unknown, errors: unknown): StepResult {
  const result: StepResult = {
    tokens: takeInt32Array('tokens', tokens),
    counts: takeInt32Array('counts', counts),
  };
  checkLength('counts', result.counts, plan.numRequests);
  if (errors !== undefined) {
    result.errors = takeUint8Array('errors', errors);
    checkLength('errors', result.errors, plan.numRequests);
  }
  return result;
}

/**
 * Reads the draft tokens of an answer and checks their form. The scheduler checks counts and token ids.
 * @throws ERR_BLOCKSTEP_BAD_ARG for drafts of another form, or what the drafts' getters throw
 */
export function takeDrafts(drafts: unknown): Drafts {
  if (typeof drafts !== 'object' || drafts === null) throw badArgument('drafts', show(drafts), 'an object');
  const { tokens, counts } = drafts as Record<string, unknown>;
  checkFlatFields(drafts, tokens, counts);
  return { tokens: takeInt32Array('drafts.tokens', tokens), counts: takeInt32Array('drafts.counts', counts) };
}

/** Checks that the counts tell which drafts belong to which entry of the plan. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDrafts({ numRequests }: Plan, tokens: Int32Array, counts: Int32Array): void {
  checkLength('drafts.counts', counts, numRequests);
  checkLayout(numRequests, { tokens, counts });
}

/** Extras whose getters threw. */
class Unreadable {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

function copyOf(extras: unknown): unknown {
  if (!Array.isArray(extras)) return extras;
  try {
    return Array.from(extras as unknown[]);
  } catch (error) {
    return new Unreadable(error);
  }
}

/**
 * The extras of an answer, one for each token in the order of `tokens`; null if the answer has none.
 * @throws ERR_BLOCKSTEP_BAD_ARG if there are fewer extras than tokens by `counts`, or what the getters of the extras threw
 */
export function takeExtras(
  { numRequests }: Plan,
  { result: { counts }, extras }: TakenAnswer,
): readonly unknown[] | null {
  if (extras === undefined) return null;
  if (extras instanceof Unreadable) throw extras.error;
  if (!Array.isArray(extras)) throw badArgument('extras', show(extras), 'an array, one entry for each token');
  let total = 0;
  for (let i = 0; i < numRequests; i++) total += counts[i];
  if (extras.length >= total) return extras;
  throw badArgument('extras', `${extras.length} entries`, `at least ${total}, one for each token`);
}

function takeLost(lost: unknown): readonly unknown[] {
  if (lost === undefined) return NO_BLOCKS;
  if (!Array.isArray(lost) && !(lost instanceof Int32Array))
    throw badArgument('lostBlocks', show(lost), 'an array of block ids');
  return Array.from(lost as ArrayLike<unknown>);
}

/** An answer whose wrong rows were turned into failed rows. */
export interface RepairedAnswer {
  readonly result: StepResult;
  readonly extras: readonly unknown[] | null;
  /** What was wrong with the row of each request, in words. */
  readonly wrong: ReadonlyMap<Request, string>;
}

/**
 * Turns each wrong row of an answer into a failed row, and leaves the other rows as they are. A wrong row is not reported if its
 * request has ended meanwhile or its outputs are dropped anyway.
 * @throws ERR_BLOCKSTEP_BAD_ARG if the counts do not tell which tokens belong to which row: then the whole step fails
 */
export function repairAnswer(
  plan: Plan,
  answer: StepResult,
  extras: readonly unknown[] | null,
): RepairedAnswer {
  const n = plan.numRequests;
  checkLayout(n, answer);
  const counts = answer.counts.slice(0, n);
  const errors = answer.errors?.slice(0, n) ?? new Uint8Array(n);
  const tokens = answer.tokens.slice();
  const moved = extras?.slice() ?? null;
  const wrong = new Map<Request, string>();
  let from = 0;
  let to = 0;
  for (let i = 0; i < n; i++) {
    const own = answer.tokens.subarray(from, from + counts[i]);
    from += own.length;
    const what = errors[i] !== 0 ? null : wrongRow(own, plan.maxOutputTokens[i]);
    if (errors[i] !== 0 || what !== null) counts[i] = 0;
    else {
      tokens.set(own, to);
      moved?.copyWithin(to, from - own.length, from);
    }
    to += counts[i];
    if (what === null || plan.requests[i].isFinished || plan.dropped[i] !== 0) continue;
    errors[i] = 1;
    wrong.set(plan.requests[i], what);
  }
  return { result: { tokens, counts, errors }, extras: moved, wrong };
}

/** What is wrong with a row's tokens; null = nothing. */
function wrongRow(tokens: Int32Array, most: number): string | null {
  if (tokens.length > most) return `it brought ${tokens.length} tokens, at most ${most} were expected`;
  if (tokens.length === 0 && most > 0) return 'it brought no token and no error, though one was due';
  const bad = tokens.find((token) => token < 0 || token > TOKEN_MAX);
  if (bad === undefined) return null;
  // A model that is given an unknown token often returns that token.
  const hint =
    bad === -1 ? '; -1 in inputIds stands for a token that a step in flight makes: use InputBatch' : '';
  return `it brought the token ${bad}, expected 0 to ${TOKEN_MAX}${hint}`;
}

function checkLayout(n: number, { tokens, counts }: StepResult): void {
  let total = 0;
  for (let i = 0; i < n; i++) {
    if (counts[i] < 0) throw badArgument(`counts[${i}]`, String(counts[i]), 'at least 0');
    total += counts[i];
  }
  if (total > tokens.length) {
    throw badArgument('tokens', `${tokens.length} ids`, `at least ${total} ids, the sum of counts`);
  }
}

function checkLength(name: string, { length }: { length: number }, n: number): void {
  if (length >= n) return;
  throw badArgument(name, `${length} entries`, `at least ${n} entries, one for each of the plan`);
}
