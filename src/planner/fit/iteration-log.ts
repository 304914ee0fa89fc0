// Reads vLLM's log of iterations.
import { BlockstepError } from '../../base/errors.js';

/** Counts as in vLLM's log: a request is in its context phase until it has a token. */
export interface Composition {
  readonly contextRequests: number;
  readonly contextTokens: number;
  readonly generationRequests: number;
  readonly generationTokens: number;
}

/** One line of vLLM's `--enable-logging-iteration-details`. */
export interface LoggedStep extends Composition {
  readonly line: number;
  readonly elapsedMs: number;
}

/**
 * Until June 2026 the engine wrote these lines. Since then the server does: it names the engine in
 * front, and the use of the KV cache and encoder inputs behind. A dummy iteration has no tokens.
 */
const LINE =
  /(?:Engine (\d+): )?(?<!\w)Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, (\d+) generation tokens, iteration elapsed time: (\d+(?:\.\d+)?) ms/;
const ANY = /(?<!\w)Iteration\(\d+\):/;
const ENCODER = /encoder inputs: [1-9]/;

/** Whether a text has a line of an iteration. */
export function isIterationLog(text: string): boolean {
  return ANY.test(text);
}

/**
 * Reads the steps of a log of vLLM, and skips other lines. Steps that computed nothing are left
 * out.
 * @param name of the file, for messages
 * @throws ERR_BLOCKSTEP_BAD_FILE for a log without such lines, with a truncated line, or of several
 * engines
 */
export function readIterationLog(text: string, name: string): LoggedStep[] {
  const steps: LoggedStep[] = [];
  let last = -1;
  let engine: string | undefined;
  for (const [i, line] of text.split('\n').entries()) {
    if (!ANY.test(line)) continue;
    const found = LINE.exec(line);
    if (found === null)
      throw bad(name, i + 1, `expected a whole line of an iteration, got ${line.slice(0, 200)}`);
    if (ENCODER.test(line))
      throw bad(name, i + 1, `expected iterations without encoder inputs, got ${line.slice(0, 200)}`);
    const [iteration, contextRequests, contextTokens, generationRequests, generationTokens, elapsedMs] = found
      .slice(2)
      .map(Number);
    const isOther = last >= 0 && found[1] !== engine;
    if (iteration <= last || isOther) {
      const got = isOther
        ? `an iteration of another engine (${found[1] ?? 'without a number'})`
        : `${iteration}`;
      const expected = `expected an iteration after ${last}, got ${got}`;
      throw bad(name, i + 1, `${expected}: the log must be of one engine and one start`);
    }
    engine = found[1];
    last = iteration;
    if (contextTokens + generationTokens === 0) continue;
    steps.push({
      line: i + 1,
      contextRequests,
      contextTokens,
      generationRequests,
      generationTokens,
      elapsedMs,
    });
  }
  if (steps.length > 0) return steps;
  const expected = 'expected lines such as "Iteration(7): 1 context requests, ..."';
  throw bad(name, 1, `${expected}; start vLLM with --enable-logging-iteration-details`);
}

function bad(name: string, line: number, problem: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${name}:${line}: ${problem}`);
}
