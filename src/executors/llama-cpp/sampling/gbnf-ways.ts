// Counts the continuations of the texts of a grammar.
import type { GbnfRules } from './gbnf-rules.js';

/**
 * Most nested rules that begin with rules. llama.cpp recurses over them, on the stack of a thread.
 */
const MOST_DEPTH = 2200;
/**
 * Most continuations of a text at one place. llama.cpp keeps all of them, and compares each with
 * all others.
 */
const MOST_WAYS = 10_000;

/**
 * Counts the continuations of a text at the begin of each rule, and behind each part of its
 * choices. A rule that may be empty counts together with the elements behind it. llama.cpp's own
 * search for left recursion overlooks some rules that may be empty, and would then never end.
 * @returns the count at the begin of each rule, and the largest count at one place
 */
export function checkWays(
  rules: GbnfRules,
  root: number,
): { readonly ofRule: Float64Array; readonly most: number } {
  let most = 0;
  /**
   * [rule] its possible first characters and tokens, counted by their places; -1: not counted yet.
   */
  const ways = new Float64Array(rules.count).fill(-1);
  const isOpen = new Uint8Array(rules.count);
  const isEmpty = rules.emptyRules();
  const check = (sum: number): number => {
    if (sum > MOST_WAYS) throw new Error(`a text may go on in more than ${MOST_WAYS} ways at one place`);
    most = Math.max(most, sum);
    return sum;
  };
  const visit = (id: number, depth: number): number => {
    if (ways[id] >= 0) return ways[id];
    if (isOpen[id] === 1) throw new Error('a rule that begins with itself (left recursion)');
    if (depth > MOST_DEPTH) throw new Error(`rules that begin with rules, more than ${MOST_DEPTH} deep`);
    isOpen[id] = 1;
    let sum = 0;
    for (const { path } of rules.get(id))
      for (const part of path) {
        sum = check(sum + (part < 0 ? 1 : visit(part, depth + 1)));
        if (part < 0 || isEmpty[part] === 0) break;
      }
    isOpen[id] = 0;
    ways[id] = sum;
    return sum;
  };
  visit(root, 0);
  for (let id = 0; id < rules.count; id++) {
    visit(id, 0);
    for (const { path } of rules.get(id)) {
      let behind = 0;
      for (let i = path.length - 1; i > 0; i--) {
        const part = path[i];
        behind = part < 0 ? 1 : check(visit(part, 0) + (isEmpty[part] === 1 ? behind : 0));
      }
    }
  }
  return { ofRule: ways, most };
}
