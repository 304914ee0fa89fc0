import type { Anomalies } from '../../base/anomalies.js';
import { describeError, show } from '../../base/errors.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { type FinishCode, finishReasonOf } from '../request/status.js';
import {
  type ConnectorOutput,
  type Finished,
  type Match,
  PartialMetadata,
  type Protection,
} from './connector.js';
import {
  type ConnectorAnswer,
  type ConnectorAnswers,
  type ConnectorQuestion,
  isGoodAnswer,
  type TakenFinished,
  type TakenMatch,
} from './connector-answers.js';
import type { ConnectorMethods } from './connector-methods.js';
import type { BlockLists, HandOver } from './kv-view.js';

/** The answer of a connector that threw, or answered what makes no sense. */
export const FAILED = Symbol('the connector failed');

/** The metadata for the workers of a plan, and the children that could make none. */
export interface TakenMetadata {
  readonly metadata: unknown;
  readonly failedChildren: readonly number[];
}

/** Where the answers of the connector are written down. */
export interface ConnectorLog {
  connector(answer: ConnectorAnswer): void;
}

/**
 * The connector of a scheduler behind an exception boundary: the one place that asks a connector. Whatever it does costs a
 * request at most: an exception and a bad answer are counted and become `FAILED`. Answers are facts for the log.
 */
export class AskedConnector {
  readonly methods: ConnectorMethods;
  readonly protection: readonly Protection[];
  /** Ranks that report, by child. */
  readonly reporters: readonly (readonly number[])[];
  readonly #anomalies: Anomalies;
  readonly #log: ConnectorLog | null;

  constructor(methods: ConnectorMethods, anomalies: Anomalies, log: ConnectorLog | null) {
    this.methods = methods;
    this.protection = methods.protection;
    this.reporters = methods.reporters;
    this.#anomalies = anomalies;
    this.#log = log;
  }

  /**
   * What the connector can bring of a request beyond `numLocal` tokens. Of a synchronous load the last token is left to be
   * computed.
   */
  askMatch(request: Request, numLocal: number): TakenMatch | typeof FAILED {
    const most = request.numTokens - numLocal;
    const given = this.#ask(request, 'match', ({ getNumNewMatchedTokens }) => {
      const answer = getNumNewMatchedTokens(request, numLocal) as Match;
      const { numTokens, async: isAsync, child = 0, wakes = false } = answer;
      const isTooMuch = typeof numTokens === 'number' && numTokens > most;
      return isTooMuch ? undefined : { numTokens, async: isAsync, child, wakes };
    });
    if (given === FAILED || given.async || given.numTokens === null) return given;
    return given.numTokens < most ? given : { ...given, numTokens: most - 1 };
  }

  /** Tells the connector of an admission. @returns false if it failed */
  tellAllocated(request: Request, blocks: BlockLists, numExternal: number): boolean {
    const told = this.#ask(request, 'alloc', ({ updateStateAfterAlloc }) => {
      updateStateAfterAlloc(request, blocks, numExternal);
      return true;
    });
    return told !== FAILED;
  }

  /** What the connector decides about a request that has just ended. */
  askFinished(request: Request, reason: FinishCode, handOver: HandOver): TakenFinished | typeof FAILED {
    return this.#ask(request, 'finished', ({ requestFinished, protection }) => {
      const answer = requestFinished(request, finishReasonOf(reason), handOver) as Finished;
      const { delayFree, children = [0], transferParams } = answer;
      if (!Array.isArray(children) || (delayFree && !protection.includes('own'))) return undefined;
      const taken = { delayFree, children: delayFree ? ([...new Set(children)] as number[]) : [] };
      return transferParams === undefined ? taken : { ...taken, transferParams };
    });
  }

  /** The metadata for the workers of this plan. What a child could not make is counted as the failure of that child. */
  askMetadata(plan: Plan): TakenMetadata | typeof FAILED {
    let metadata: unknown;
    const given = this.#ask(null, 'metadata', ({ buildMetadata }) => {
      const answer = buildMetadata(plan);
      if (!(answer instanceof PartialMetadata)) {
        metadata = answer;
        return { failedChildren: [] };
      }
      const { failedChildren } = answer;
      metadata = answer.metadata;
      return { failedChildren: Array.isArray(failedChildren) ? [...new Set(failedChildren)] : undefined };
    });
    if (given === FAILED) return FAILED;
    for (const child of given.failedChildren)
      this.#fail(null, `could not make the metadata of child ${child}`);
    return { metadata, ...given };
  }

  /** Whether the request must not end without blocks to send. */
  askDelivery(request: Request): boolean {
    if (this.methods.requiresKvDelivery === undefined) return false;
    const given = this.#ask(request, 'delivery', ({ requiresKvDelivery }) => ({
      answer: requiresKvDelivery?.(request),
    }));
    return given !== FAILED && given.answer;
  }

  /** Whether its tier is empty now: null if it has none, or cannot tell. */
  askReset(): boolean | null {
    if (this.methods.resetCache === undefined) return null;
    const given = this.#ask(null, 'reset', ({ resetCache }) => ({ answer: resetCache?.() }));
    return given === FAILED ? false : (given.answer ?? null);
  }

  /** Tells the connector of a request that was added. @returns false if it failed */
  tellNew(request: Request): boolean {
    if (this.methods.onNewRequest === undefined) return true;
    const told = this.#ask(request, 'new', ({ onNewRequest }) => {
      onNewRequest?.(request);
      return true;
    });
    return told !== FAILED;
  }

  /** Decides nothing, and stands in a log all the same, as `tellCancel` does: a connector may pin and unpin there. */
  tellOutput(output: ConnectorOutput): void {
    if (this.methods.updateConnectorOutput === undefined) return;
    this.#ask(null, 'output', ({ updateConnectorOutput }) => {
      updateConnectorOutput?.(output);
      return true;
    });
  }

  tellCancel(request: Request): void {
    if (this.methods.cancelSending === undefined) return;
    this.#ask(null, 'cancel', ({ cancelSending }) => {
      cancelSending?.(request);
      return true;
    });
  }

  tellShutdown(): void {
    this.#tell('shutdown', ({ shutdown }) => shutdown?.());
  }

  askPendingWork(): boolean {
    let pending = false;
    this.#tell('hasPendingWork', ({ hasPendingWork }) => {
      pending = hasPendingWork?.() === true;
    });
    return pending;
  }

  /** @param call returns the answer as it is to be checked */
  #ask<Q extends ConnectorQuestion>(
    request: Request | null,
    question: Q,
    call: (methods: ConnectorMethods) => unknown,
  ): ConnectorAnswers[Q] | typeof FAILED {
    let answer: ConnectorAnswers[Q] | typeof FAILED = FAILED;
    try {
      const given = call(this.methods);
      if (isGoodAnswer(question, given, (child) => this.#isChild(child))) answer = given;
      else this.#fail(request, `answered ${question} with what makes no sense`);
    } catch (error) {
      this.#fail(request, `threw at ${question}: ${describeError(error)}`);
    }
    if (this.#log !== null) {
      const fact = answer === FAILED ? 'failed' : asPlain(answer);
      this.#log.connector({ handle: request?.handle ?? 0, question, answer: fact });
    }
    return answer;
  }

  #tell(what: string, call: (methods: ConnectorMethods) => void): void {
    try {
      call(this.methods);
    } catch (error) {
      this.#fail(null, `threw at ${what}: ${describeError(error)}`);
    }
  }

  #fail(request: Request | null, what: string): void {
    if (request !== null) request.failure ??= `its connector ${what}`;
    const who = request === null ? '' : ` of request ${show(request.id)}`;
    this.#anomalies.report('connector-failed', `the connector${who} ${what}`, request);
  }

  #isChild(child: unknown): boolean {
    return Number.isInteger(child) && (this.reporters[child as number] ?? null) !== null;
  }
}

/** Ranks of the child whose reports are awaited. */
export function reportersOf(
  s: { readonly connector: AskedConnector | null },
  child: number,
): readonly number[] {
  return s.connector?.reporters[child] ?? [];
}

/** Transfer params may be anything. They decide nothing, so what no log can hold of them is left out. */
function asPlain<T>(answer: T): T {
  if (typeof answer !== 'object' || answer === null || !('transferParams' in answer)) return answer;
  const { transferParams, ...rest } = answer;
  try {
    const plain = JSON.parse(JSON.stringify(transferParams)) as unknown;
    if (typeof plain === 'object' && plain !== null) return { ...rest, transferParams: plain } as T;
  } catch {
    // Left out.
  }
  return rest as T;
}
