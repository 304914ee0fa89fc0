import type { Anomalies } from '../../base/anomalies.js';
import { describeError, show } from '../../base/errors.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { type FinishCode, finishReasonOf } from '../request/status.js';
import { ChildrenError } from './children-error.js';
import type { ConnectorOutput, Finished, Match, Protection } from './connector.js';
import {
  type ConnectorAnswer,
  type ConnectorAnswers,
  type ConnectorQuestion,
  isGoodAnswer,
  type ParsedFinished,
  type ParsedMatch,
} from './connector-answers.js';
import type { ConnectorMethods } from './connector-methods.js';
import type { BlockLists, HandOver } from './kv-view.js';
import { PartialMetadata } from './partial-metadata.js';

/** Stands for the answer of a connector that threw, or whose answer is invalid. */
export const FAILED = Symbol('the connector failed');

/** The metadata for the workers of one plan, and the children that failed to make it. */
export interface ParsedMetadata {
  readonly metadata: unknown;
  readonly failedChildren: readonly number[];
}

/** The log that the answers of the connector are written to. */
export interface ConnectorLog {
  connector(answer: ConnectorAnswer): void;
}

/**
 * The only place that calls a scheduler's connector, behind an exception boundary. An exception of
 * the connector, or an invalid answer, is counted as an anomaly and becomes `FAILED`, so it costs
 * at most one request. Answers are written to the log. `shutdown` and `hasPendingWork` are not,
 * because they decide nothing.
 */
export class AskedConnector {
  readonly methods: ConnectorMethods;
  readonly protection: readonly Protection[];
  /** The ranks that report, by child. */
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

  /** Asks how many tokens of a request the connector can load beyond `numLocal` tokens of the local prefix. */
  askMatch(request: Request, numLocal: number): ParsedMatch | typeof FAILED {
    const most = request.numTokens - numLocal;
    return this.#ask(request, 'match', ({ getNumNewMatchedTokens }) => {
      const answer = this.#tolerate('match', () => getNumNewMatchedTokens(request, numLocal)) as Match;
      const { numTokens, async: isAsync, child = 0, wakes = false } = answer;
      const isTooMuch = typeof numTokens === 'number' && numTokens > most;
      return isTooMuch ? undefined : { numTokens, async: isAsync, child, wakes };
    });
  }

  /** Tells the connector that a request was admitted. @returns false if the connector failed */
  tellAllocated(request: Request, blocks: BlockLists, numExternal: number): boolean {
    const told = this.#ask(request, 'alloc', ({ updateStateAfterAlloc }) => {
      this.#tolerate('alloc', () => updateStateAfterAlloc(request, blocks, numExternal));
      return true;
    });
    return told !== FAILED;
  }

  /** Asks what the connector decides about a request that has just ended. */
  askFinished(request: Request, reason: FinishCode, handOver: HandOver): ParsedFinished | typeof FAILED {
    return this.#ask(request, 'finished', ({ requestFinished, protection }) => {
      const ask = () => requestFinished(request, finishReasonOf(reason), handOver);
      const answer = this.#tolerate('finished', ask) as Finished;
      const { delayFree, children = [0], transferParams } = answer;
      if (!Array.isArray(children) || (delayFree && !protection.includes('own'))) return undefined;
      const parsed = { delayFree, children: delayFree ? ([...new Set(children)] as number[]) : [] };
      return transferParams === undefined ? parsed : { ...parsed, transferParams };
    });
  }

  /**
   * Asks for the metadata for the workers of this plan. A child that could not make metadata is
   * counted as a failure of that child.
   */
  askMetadata(plan: Plan): ParsedMetadata | typeof FAILED {
    let metadata: unknown;
    let why = '';
    const given = this.#ask(null, 'metadata', ({ buildMetadata }) => {
      const answer = buildMetadata(plan);
      if (!(answer instanceof PartialMetadata)) {
        metadata = answer;
        return { failedChildren: [] };
      }
      const { failedChildren, cause } = answer;
      metadata = answer.metadata;
      if (cause !== undefined) why = `: ${describeError(cause)}`;
      return { failedChildren: Array.isArray(failedChildren) ? [...new Set(failedChildren)] : undefined };
    });
    if (given === FAILED) return FAILED;
    for (const child of given.failedChildren)
      this.#fail(null, `could not make the metadata of child ${child}${why}`);
    return { metadata, ...given };
  }

  /**
   * Asks whether a request must not end without blocks to send. False if the connector lacks this
   * method, or failed.
   */
  askDelivery(request: Request): boolean {
    if (this.methods.requiresKvDelivery === undefined) return false;
    const given = this.#ask(request, 'delivery', ({ requiresKvDelivery }) => ({
      answer: this.#tolerate('delivery', () => requiresKvDelivery?.(request)),
    }));
    return given !== FAILED && given.answer;
  }

  /**
   * Lets the connector reset its tier. @returns true if the tier is empty now; false if it is not,
   * or the connector failed; null if there is nothing to reset
   */
  askReset(): boolean | null {
    if (this.methods.resetCache === undefined) return null;
    const given = this.#ask(null, 'reset', ({ resetCache }) => ({ answer: resetCache?.() }));
    return given === FAILED ? false : (given.answer ?? null);
  }

  /** Tells the connector that a request was added. @returns false if the connector failed */
  tellNew(request: Request): boolean {
    if (this.methods.onNewRequest === undefined) return true;
    const told = this.#ask(request, 'new', ({ onNewRequest }) => {
      onNewRequest?.(request);
      return true;
    });
    return told !== FAILED;
  }

  /**
   * Passes the reports of the workers to the connector. Its answer decides nothing. The call is
   * logged nevertheless, like that of `tellCancel`, because a connector may pin and unpin blocks in
   * these methods.
   */
  tellOutput(output: ConnectorOutput): void {
    if (this.methods.updateConnectorOutput === undefined) return;
    this.#ask(null, 'output', ({ updateConnectorOutput }) => {
      updateConnectorOutput?.(output);
      return true;
    });
  }

  /** Asks the connector to stop sending the blocks of a request that has finished. */
  tellCancel(request: Request): void {
    if (this.methods.cancelSending === undefined) return;
    this.#ask(null, 'cancel', ({ cancelSending }) => {
      cancelSending?.(request);
      return true;
    });
  }

  /**
   * Tells the connector that no request with these transfer params will come. No decision depends
   * on it.
   */
  tellRefused(transferParams: Readonly<Record<string, unknown>>): void {
    this.#tell('requestRefused', ({ requestRefused }) =>
      this.#tolerate('requestRefused', () => requestRefused?.(transferParams)),
    );
  }

  /** Tells the connector that the scheduler ends. */
  tellShutdown(): void {
    this.#tell('shutdown', ({ shutdown }) => shutdown?.());
  }

  /** Asks whether the connector still has work to do. False if it lacks this method, or failed. */
  askPendingWork(): boolean {
    let pending = false;
    this.#tell('hasPendingWork', ({ hasPendingWork }) => {
      pending = this.#tolerate('hasPendingWork', () => hasPendingWork?.()) === true;
    });
    return pending;
  }

  /**
   * Calls a method of the connector. If only some of its children failed (`ChildrenError`), this is
   * counted, and the answer of the others is used.
   */
  #tolerate(what: string, call: () => unknown): unknown {
    try {
      return call();
    } catch (error) {
      if (!(error instanceof ChildrenError)) throw error;
      this.#fail(null, `failed in part at ${what}: ${error.message}`);
      return error.answer;
    }
  }

  /**
   * @param call calls the connector, and returns its answer in the form that `isGoodAnswer` checks
   */
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

/** The ranks of a child whose reports are expected; empty without a connector. */
export function reportersOf(
  s: { readonly connector: AskedConnector | null },
  child: number,
): readonly number[] {
  return s.connector?.reporters[child] ?? [];
}

/**
 * The answer in a form that a log can hold. Transfer params may be anything and decide nothing, so
 * params that JSON cannot hold are left out.
 */
function asPlain<T>(answer: T): T {
  if (typeof answer !== 'object' || answer === null || !('transferParams' in answer)) return answer;
  const { transferParams, ...rest } = answer;
  try {
    const plain = JSON.parse(JSON.stringify(transferParams)) as unknown;
    if (typeof plain === 'object' && plain !== null) return { ...rest, transferParams: plain } as T;
  } catch {
    // The params are left out.
  }
  return rest as T;
}
