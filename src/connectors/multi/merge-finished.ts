import { type ChildFailure, ChildrenError } from '../../scheduler/connector/children-error.js';
import type { Finished } from '../../scheduler/connector/connector.js';
import type { Child } from './child.js';

/** One child's answer to the end of a request. */
export interface ChildFinished {
  readonly child: Child;
  readonly answer: Finished;
}

type Params = NonNullable<Finished['transferParams']>;

/**
 * Merges the transfer params of several children. If two children give the same key, the first
 * value stays, and the second child counts as failed. A silently lost value would look like a peer
 * that never answers.
 * @param failures receives the clashes
 * @returns undefined if no child gave any
 */
export function mergeParams(answers: readonly ChildFinished[], failures: ChildFailure[]): Params | undefined {
  const givers = answers.filter(({ answer }) => answer.transferParams !== undefined);
  if (givers.length <= 1) return givers[0]?.answer.transferParams;
  const merged: Record<string, unknown> = {};
  const from = new Map<string, Child>();
  for (const { child, answer } of givers) {
    for (const [key, value] of Object.entries(answer.transferParams as Params)) {
      const other = from.get(key);
      if (other === undefined) {
        from.set(key, child);
        merged[key] = value;
        continue;
      }
      const message = `its transferParams have the key ${key}, which child ${other.first} (${other.name}) gave too`;
      failures.push({ child: child.first, name: child.name, error: new Error(message) });
    }
  }
  return merged;
}

/**
 * Merges the answers of all children.
 * @param failures of children that threw. Each of them owns the blocks from now on
 * @throws ChildrenError, which carries the answer, if there are failures or clashes
 */
export function mergeFinished(
  answers: readonly ChildFinished[],
  owners: Child[],
  failures: ChildFailure[],
): Finished {
  const children: number[] = [];
  for (const { child, answer } of answers)
    if (answer.delayFree) children.push(...(answer.children ?? [0]).map((each) => child.first + each));
  for (const { first, count } of owners) for (let i = 0; i < count; i++) children.push(first + i);
  const transferParams = mergeParams(answers, failures);
  const answer = { delayFree: children.length > 0, children, ...(transferParams && { transferParams }) };
  if (failures.length > 0) throw new ChildrenError(failures, answer);
  return answer;
}
