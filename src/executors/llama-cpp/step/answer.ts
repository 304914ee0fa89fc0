// From the results of a program to an executor's answer.
import type { ExecutorPlan, ExecutorResult } from '../../../engine/executor/executor.js';
import type { TokenLogprobs } from '../../../engine/executor/sampling-params.js';
import { EntryError } from '../sampling/entry-error.js';
import type { Samplers } from '../sampling/samplers.js';
import { promptLogprobsOf } from '../sampling/token-choice.js';
import type { AnswerPlace } from './chain.js';
import type { Program } from './program.js';

/**
 * Turns the result of a program into the answer to its plan. Entries of calls that were not done
 * have failed.
 * @param place the step's first place in llama.cpp's answer; moved behind the step
 * @param isFailed whether the step failed in part
 * @param entryErrors [entry] `EntryError` of entries that failed before
 */
export function readAnswer(
  plan: ExecutorPlan,
  program: Program,
  place: AnswerPlace,
  isFailed: boolean,
  samplers: Pick<Samplers, 'numLogprobs'>,
  entryErrors: Uint8Array,
): ExecutorResult {
  const n = plan.numRequests;
  const { tokens, logprobs, callsDone } = place.answer;
  const counts = new Int32Array(n);
  const starts = new Int32Array(n);
  const errors = entryErrors.slice(0, n);
  const extras = new Map<number, TokenLogprobs[]>();
  if (isFailed) for (let i = 0; i < n; i++) if (!program.isDone(i, callsDone)) errors[i] = EntryError.call;
  let at = place.tokensAt;
  let { logprobsAt } = place;
  const { sampling, scored } = program;
  for (let i = 0; i < sampling.length && at < tokens.length; i++) {
    const entry = sampling[i];
    const count = tokens[at++];
    if (scored[i] >= 0) {
      const read: TokenLogprobs[] = [];
      for (let k = 0; k < count; k++) logprobsAt = readLogprobs(logprobs, logprobsAt, read);
      at += count;
      const told = promptLogprobsOf(plan.requests[entry].params);
      for (const [k, each] of read.entries()) told?.add(scored[i] + k, each);
      continue;
    }
    starts[entry] = at;
    at += count;
    if (errors[entry] === 0) counts[entry] = count;
    if (count === 0 && errors[entry] === EntryError.none) errors[entry] = EntryError.noToken;
    if (samplers.numLogprobs(plan.requests[entry].handle) < 0) continue;
    const read: TokenLogprobs[] = [];
    for (let k = 0; k < count; k++) logprobsAt = readLogprobs(logprobs, logprobsAt, read);
    extras.set(entry, read);
  }
  place.tokensAt = at;
  place.logprobsAt = logprobsAt;
  const flat = new Int32Array(counts.reduce((sum, count) => sum + count, 0));
  let to = 0;
  for (let i = 0; i < n; to += counts[i++]) flat.set(tokens.subarray(starts[i], starts[i] + counts[i]), to);
  // A scheduler repeats plain steps only while answers have no errors.
  const answer = errors.every((error) => error === EntryError.none)
    ? { tokens: flat, counts }
    : { tokens: flat, counts, errors };
  if (extras.size === 0) return answer;
  const all: (TokenLogprobs | undefined)[] = [];
  for (let i = 0; i < n; i++) {
    const own = extras.get(i);
    for (let k = 0; k < counts[i]; k++) all.push(own?.[k]);
  }
  return { ...answer, extras: all };
}

function readLogprobs(values: Float32Array, from: number, into: TokenLogprobs[]): number {
  const count = values[from + 1];
  const top = Array.from({ length: count }, (_, k) => ({
    token: values[from + 2 + 2 * k],
    logprob: values[from + 3 + 2 * k],
  }));
  into.push({ logprob: values[from], top });
  return from + 2 + 2 * count;
}
