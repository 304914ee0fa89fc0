// Checks the answer of an executor before it is used; fails wrong rows.
import { parseInt32Array } from '../../base/arrays.js';
import { badArgument, show } from '../../base/errors.js';
import { TOKEN_MAX } from '../../core/core.js';
import { checkFlatFields, checkRows, judgeRows, readRows } from '../../scheduler/calls/validate.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import { type Drafts, ParsedResult, type StepResult } from '../../scheduler/plan/step-result.js';
import type { Request } from '../../scheduler/request/request.js';

const NO_BLOCKS: readonly unknown[] = [];

const NO_FAULTS: readonly unknown[] = [];
const NO_WRONG: ReadonlyMap<Request, string> = new Map();

/**
 * An executor's answer, read and checked once. Its arrays refer to memory whose size cannot change.
 */
export interface ParsedAnswer {
  /**
   * The rows of the step, with wrong rows turned into failed rows. Null: the answer cannot be used,
   * and the step fails.
   */
  readonly result: ParsedResult | null;
  /** Why the answer cannot be used. */
  readonly error: unknown;
  /** One value for each token of the result; null if there are none, or if they are wrong. */
  readonly extras: readonly unknown[] | null;
  /** The fault in the row of each request, as text. */
  readonly wrong: ReadonlyMap<Request, string>;
  /** Further errors that do no harm. */
  readonly faults: readonly unknown[];
  /** Not checked yet; see `parseDrafts`. */
  readonly drafts: unknown;
  /** Ids of lost blocks, not checked: the scheduler counts ids that name no block. */
  readonly lostBlocks: readonly unknown[];
}

/**
 * Reads an answer and checks it. A wrong row fails alone if the counts tell which tokens belong to
 * the others. Never throws. A wrong row is not reported if its request has already ended or its
 * outputs are dropped anyway. So aborts must be carried out before this call.
 */
export function parseAnswer(plan: Plan, answer: unknown): ParsedAnswer {
  try {
    return readAnswer(plan, answer);
  } catch (error) {
    return { ...UNUSABLE, error };
  }
}

const UNUSABLE: ParsedAnswer = {
  result: null,
  error: undefined,
  extras: null,
  wrong: NO_WRONG,
  faults: NO_FAULTS,
  drafts: undefined,
  lostBlocks: NO_BLOCKS,
};

/**
 * @throws ERR_BLOCKSTEP_BAD_ARG for an answer of another form, or the error of a getter of the
 * answer
 */
function readAnswer(plan: Plan, answer: unknown): ParsedAnswer {
  if (typeof answer !== 'object' || answer === null)
    throw badArgument('the answer', show(answer), 'an object with tokens and counts');
  const { tokens, counts, errors, drafts, extras, lostBlocks } = answer as Record<string, unknown>;
  checkFlatFields(answer, tokens, counts);
  // Getters of these lists run here, before the check, because they might change what was checked.
  const list = copyOf(extras);
  const lost = parseLost(lostBlocks);
  const result = readRows(plan.numRequests, { tokens, counts, errors } as StepResult);
  const isGood = judgeRows(result, plan.numRequests, plan.maxOutputTokens) === 'good';
  const said = extras === undefined ? null : parseExtras(list, result);
  const faults = said instanceof Faulty ? [said.error] : NO_FAULTS;
  const good = said instanceof Faulty ? null : said;
  const parsed = {
    result,
    error: undefined,
    extras: good,
    wrong: NO_WRONG,
    faults,
    drafts,
    lostBlocks: lost,
  };
  return isGood ? parsed : { ...parsed, ...mend(plan, result, good) };
}

/**
 * Reads the draft tokens of an answer and checks their form. The scheduler checks counts and token ids.
 * @throws ERR_BLOCKSTEP_BAD_ARG for drafts of another form, or the error of a getter of the drafts
 */
export function parseDrafts(drafts: unknown): Drafts {
  if (typeof drafts !== 'object' || drafts === null) throw badArgument('drafts', show(drafts), 'an object');
  const { tokens, counts } = drafts as Record<string, unknown>;
  checkFlatFields(drafts, tokens, counts);
  return {
    tokens: parseInt32Array('drafts.tokens', tokens),
    counts: parseInt32Array('drafts.counts', counts),
  };
}

/** Checks that the counts tell which drafts belong to which entry of the plan. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDrafts({ numRequests }: Plan, tokens: Int32Array, counts: Int32Array): void {
  checkRows('drafts.counts', counts, numRequests);
  const fault = layoutFault(numRequests, { tokens, counts });
  if (fault !== null) throw fault;
}

/** Extras that cannot be used. */
class Faulty {
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
    return new Faulty(error);
  }
}

/** The extras of an answer, one for each token in the order of `tokens`. */
function parseExtras(extras: unknown, { numTokens }: ParsedResult): readonly unknown[] | Faulty {
  if (extras instanceof Faulty) return extras;
  if (!Array.isArray(extras))
    return new Faulty(badArgument('extras', show(extras), 'an array, one entry for each token'));
  if (extras.length >= numTokens) return extras;
  const expected = `at least ${numTokens}, one for each token`;
  return new Faulty(badArgument('extras', `${extras.length} entries`, expected));
}

function parseLost(lost: unknown): readonly unknown[] {
  if (lost === undefined) return NO_BLOCKS;
  if (!Array.isArray(lost) && !(lost instanceof Int32Array))
    throw badArgument('lostBlocks', show(lost), 'an array of block ids');
  return Array.from(lost as ArrayLike<unknown>);
}

/** Turns each wrong row into a failed row, and leaves the others as they are. */
function mend(
  plan: Plan,
  read: ParsedResult,
  extras: readonly unknown[] | null,
): Partial<ParsedAnswer> & Pick<ParsedAnswer, 'result' | 'extras'> {
  const n = plan.numRequests;
  const error = layoutFault(n, read);
  if (error !== null) return { result: null, error, extras: null };
  const mended = new ParsedResult(read.tokens.slice(), read.counts.slice(0, n));
  const { tokens, counts } = mended;
  const errors = read.errors?.slice(0, n) ?? new Uint8Array(n);
  mended.errors = errors;
  const moved = extras?.slice() ?? null;
  const wrong = new Map<Request, string>();
  let from = 0;
  let to = 0;
  for (let i = 0; i < n; i++) {
    const own = read.tokens.subarray(from, from + counts[i]);
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
  mended.numTokens = to;
  return { result: mended, extras: moved, wrong };
}

/** The fault in a row's tokens; null = none. */
function wrongRow(tokens: Int32Array, most: number): string | null {
  if (tokens.length > most) return `it returned ${tokens.length} tokens, at most ${most} were expected`;
  if (tokens.length === 0 && most > 0) return 'it returned neither a token nor an error, but one was due';
  const bad = tokens.find((token) => token < 0 || token > TOKEN_MAX);
  if (bad === undefined) return null;
  // A model that receives an unknown token often returns that token.
  const hint =
    bad === -1 ? '; -1 in inputIds stands for a token that a step in flight makes: use InputBatch' : '';
  return `it returned the token ${bad}, expected 0 to ${TOKEN_MAX}${hint}`;
}

/** Why the counts do not tell which tokens belong to which row; null if they do. */
function layoutFault(n: number, { tokens, counts }: StepResult): Error | null {
  let total = 0;
  for (let i = 0; i < n; i++) {
    if (counts[i] < 0) return badArgument(`counts[${i}]`, String(counts[i]), 'at least 0');
    total += counts[i];
  }
  if (total <= tokens.length) return null;
  return badArgument('tokens', `${tokens.length} ids`, `at least ${total} ids, the sum of counts`);
}
