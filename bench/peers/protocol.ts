/** The messages between the benchmark and a peer, one JSON object a line. README.md says what they mean. */

export const PROTOCOL = 1;

export interface Open {
  readonly op: 'open';
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxRunning: number;
  readonly maxTokensPerStep: number;
  readonly maxRequestTokens: number;
}

export interface PeerRequest {
  readonly id: number;
  readonly prompt: readonly number[];
  readonly maxTokens: number;
}

export type Message =
  | { readonly op: 'hello'; readonly protocol: number }
  | Open
  | { readonly op: 'add'; readonly requests: readonly PeerRequest[] }
  | { readonly op: 'step'; readonly count: number }
  | { readonly op: 'close' };

/** The answer to `add`. */
export interface Added {
  readonly us?: readonly number[];
}

/** The answer to `step`: of each step, in its order, except `ended`. */
export interface Stepped {
  readonly requests: readonly number[];
  readonly tokens: readonly number[];
  readonly outputs: readonly number[];
  readonly ended: readonly number[];
  readonly us?: readonly number[];
}

/** @throws Error that says what is wrong with the answer to `add` */
export function checkAdded(answer: unknown, count: number, wallUs: number): Added {
  const { us } = answer as Added;
  checkTimes(us, count, wallUs);
  return { ...(us && { us }) };
}

/** @throws Error that says what is wrong with the answer to `step` */
export function checkStepped(answer: unknown, count: number, wallUs: number): Stepped {
  const { requests, tokens, outputs, ended, us } = answer as Stepped;
  for (const [name, list] of Object.entries({ requests, tokens, outputs })) {
    checkList(name, list);
    if (list.length !== count) throw new Error(`"${name}" has ${list.length} numbers for ${count} steps`);
  }
  checkList('ended', ended);
  checkTimes(us, count, wallUs);
  return { requests, tokens, outputs, ended, ...(us && { us }) };
}

function checkList(name: string, list: unknown): void {
  const isList = Array.isArray(list) && list.every((each) => Number.isInteger(each) && each >= 0);
  if (!isList)
    throw new Error(`"${name}" must be a list of whole numbers, got ${shorten(JSON.stringify(list))}`);
}

function checkTimes(us: unknown, count: number, wallUs: number): void {
  if (us === undefined) return;
  if (
    !Array.isArray(us) ||
    us.length !== count ||
    us.some((each) => typeof each !== 'number' || !(each >= 0))
  )
    throw new Error(`"us" must have ${count} times, got ${shorten(JSON.stringify(us))}`);
  const sum = (us as number[]).reduce((all, each) => all + each, 0);
  if (sum > wallUs)
    throw new Error(
      `it says that it took ${Math.round(sum)} µs, but answered within ${Math.round(wallUs)} µs`,
    );
}

/** The beginning of a text, for a message. */
export function shorten(text: string | undefined): string {
  const line = String(text).trim().split('\n')[0];
  return line.length > 80 ? `${line.slice(0, 77)}...` : line;
}
