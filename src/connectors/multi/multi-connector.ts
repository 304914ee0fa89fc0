import { checkInteger } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { type ChildFailure, ChildrenError } from '../../scheduler/connector/children-error.js';
import type {
  BlockPins,
  ConnectorOutput,
  Finished,
  Match,
  Protection,
  SchedulerConnector,
} from '../../scheduler/connector/connector.js';
import type { ParsedMatch } from '../../scheduler/connector/connector-answers.js';
import type { BlockLists, ConnectorPlan, HandOver, KvView } from '../../scheduler/connector/kv-view.js';
import { PartialMetadata } from '../../scheduler/connector/partial-metadata.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { FinishReason } from '../../scheduler/request/status.js';
import { checkOptions } from '../base/option-checks.js';
import { type Child, type NamedConnector, parseChildren, pinsOf } from './child.js';
import { parseFinished, parseMatch } from './child-answers.js';
import { outputOf } from './child-output.js';
import { ChildView, withoutParams } from './child-view.js';
import { type ChildFinished, mergeFinished } from './merge-finished.js';
import type { MultiMetadata, MultiSaid } from './multi-metadata.js';

/** Options of a `MultiConnector`. */
export interface MultiConnectorOptions {
  /**
   * The connectors, each once, in the order in which they are asked. The first one that has content
   * loads it. Names appear in messages; the default is the class name and the place.
   */
  children: readonly (SchedulerConnector | NamedConnector)[];
  /**
   * Number of ranks, equal to the engine's number of workers. Children that declare `reporters`
   * keep these.
   */
  numRanks: number;
}

const OPTIONS = knownNames<MultiConnectorOptions>('the options of a MultiConnector', {
  children: true,
  numRanks: true,
});

/** Stands for the answer of a child that threw or gave an invalid answer. */
const FAILED = Symbol('the child failed');

/** The child that loads for a request, and the stand-in that the other children see. */
interface Ownership {
  readonly owner: Child;
  readonly standIn: ConnectorRequest;
}

/**
 * Combines several connectors into one (vLLM MultiConnector). Every child stores and hands over on
 * its own. Each load has one owner: the first child, in order, that has content. Only the owner
 * gets the load, and only its reports end the load. While a load has an owner, the other children
 * do not see the request's transfer params.
 *
 * A child that throws costs as much as it would cost alone. The other children are called all the
 * same, and the failure is counted with the child's name.
 */
export class MultiConnector implements SchedulerConnector<MultiMetadata, MultiSaid> {
  readonly protection: readonly Protection[];
  readonly reporters: readonly (readonly number[])[];
  /** The hash seed of the first child that has one. */
  readonly hashSeed: Uint8Array | null;
  readonly #children: readonly Child[];
  readonly #firsts: readonly number[];
  /**
   * By handle: the owner of the request's load. An entry lasts from the offer until the next answer
   * or the request's end.
   */
  readonly #owners = new Map<number, Ownership>();
  /** By request whose blocks are still being sent: the children that send them. */
  readonly #senders = new WeakMap<ConnectorRequest, readonly Child[]>();

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: MultiConnectorOptions) {
    checkOptions(options, OPTIONS);
    const numRanks = checkInteger('numRanks', options.numRanks, 1, 65_536);
    this.#children = parseChildren(options.children, numRanks);
    this.protection = [...new Set(this.#children.flatMap(({ methods }) => methods.protection))];
    this.reporters = this.#children.flatMap(({ methods }) => methods.reporters);
    this.hashSeed = this.#children.find(({ methods }) => methods.hashSeed !== null)?.methods.hashSeed ?? null;
    this.#firsts = [...this.#children.map(({ first }) => first), this.reporters.length];
  }

  /**
   * The children's names, in order. The place of a name is its `child` in reports, unless a child
   * itself combines several.
   */
  get names(): string[] {
    return this.#children.map(({ name }) => name);
  }

  bind(view: KvView): void {
    for (const { name, methods } of this.#children) methods.bind?.(new ChildView(name, view));
  }

  bindPins(pins: BlockPins): void {
    for (const { name, methods } of this.#children)
      if (methods.protection.includes('pin')) methods.bindPins?.(pinsOf(name, pins));
  }

  onNewRequest(request: ConnectorRequest): void {
    this.#all(({ methods }) => methods.onNewRequest?.(request));
  }

  requestRefused(transferParams: Readonly<Record<string, unknown>>): void {
    this.#all(({ methods }) => methods.requestRefused?.(transferParams));
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match {
    const failures: ChildFailure[] = [];
    const most = request.numTokens - numLocalTokens;
    let owner: Child | null = null;
    let offer: ParsedMatch | null = null;
    let isLater = false;
    let wakes = true;
    for (const child of this.#children) {
      const answer = this.#try(
        failures,
        child,
        () => child.methods.getNumNewMatchedTokens(request, numLocalTokens),
        (given) => parseMatch(child, given, most),
      );
      if (answer === FAILED) continue;
      if (answer.numTokens === null) {
        isLater = true;
        wakes &&= answer.wakes;
      } else if (answer.numTokens > 0 && owner === null) {
        owner = child;
        offer = answer;
      }
    }
    this.#owners.delete(request.handle);
    let match: Match = { numTokens: 0, async: false };
    // A child that cannot answer yet may have more tokens than the first child that can.
    if (isLater) match = { numTokens: null, async: false, wakes };
    else if (owner !== null && offer !== null) {
      this.#owners.set(request.handle, { owner, standIn: withoutParams(request) });
      match = { ...offer, child: owner.first + offer.child };
    }
    if (failures.length > 0) throw new ChildrenError(failures, match);
    return match;
  }

  updateStateAfterAlloc(request: ConnectorRequest, blocks: BlockLists, numExternalTokens: number): void {
    const ownership = this.#owners.get(request.handle);
    const failures: ChildFailure[] = [];
    let hasLoad = true;
    for (const child of this.#children) {
      const isOwner = child === ownership?.owner;
      const shown = isOwner || ownership === undefined ? request : ownership.standIn;
      const told = this.#try(failures, child, () =>
        child.methods.updateStateAfterAlloc(shown, blocks, isOwner ? numExternalTokens : 0),
      );
      if (isOwner && told === FAILED) hasLoad = false;
    }
    // The owner's load does not begin. Without the error, the request would wait forever.
    if (!hasLoad) throw new Error(new ChildrenError(failures).message);
    if (failures.length > 0) throw new ChildrenError(failures);
  }

  buildMetadata(plan: ConnectorPlan): MultiMetadata | PartialMetadata<MultiMetadata> {
    const failures: ChildFailure[] = [];
    const failedChildren: number[] = [];
    const children = this.#children.map((child) => {
      const { first, count } = child;
      const answer = this.#try(failures, child, () => child.methods.buildMetadata(plan));
      if (answer instanceof PartialMetadata) {
        failedChildren.push(...answer.failedChildren.map((each) => first + each));
        return answer.metadata as unknown;
      }
      if (answer !== FAILED) return answer;
      for (let i = 0; i < count; i++) failedChildren.push(first + i);
      return undefined;
    });
    const metadata = { firsts: this.#firsts, children };
    if (failedChildren.length === 0) return metadata;
    return new PartialMetadata(metadata, failedChildren, new ChildrenError(failures));
  }

  updateConnectorOutput(output: ConnectorOutput<MultiSaid>): void {
    this.#all((child) => child.methods.updateConnectorOutput?.(outputOf(child, output)));
  }

  requestFinished(request: ConnectorRequest, reason: FinishReason, handOver: HandOver): Finished {
    this.#owners.delete(request.handle);
    const failures: ChildFailure[] = [];
    const answers: ChildFinished[] = [];
    const unclear: Child[] = [];
    for (const child of this.#children) {
      const answer = this.#try(
        failures,
        child,
        () => child.methods.requestFinished(request, reason, handOver),
        (given) => parseFinished(child, given),
      );
      if (answer === FAILED) unclear.push(child);
      else answers.push({ child, answer });
    }
    const delaying = answers.filter(({ answer }) => answer.delayFree).map(({ child }) => child);
    if (delaying.length + unclear.length > 0) this.#senders.set(request, [...delaying, ...unclear]);
    return mergeFinished(answers, unclear, failures);
  }

  requiresKvDelivery(request: ConnectorRequest): boolean {
    const failures: ChildFailure[] = [];
    let answer = false;
    for (const child of this.#children)
      if (this.#try(failures, child, () => child.methods.requiresKvDelivery?.(request)) === true)
        answer = true;
    if (failures.length > 0) throw new ChildrenError(failures, answer);
    return answer;
  }

  /** Only children that send blocks of the request are asked to stop. */
  cancelSending(request: ConnectorRequest): void {
    const senders = this.#senders.get(request) ?? [];
    this.#all((child) => {
      if (senders.includes(child)) child.methods.cancelSending?.(request);
    });
  }

  /**
   * Resets every child, even if one of them cannot be reset. Undefined: no child has a cache to
   * reset.
   */
  resetCache(): boolean | undefined {
    const answers: unknown[] = [];
    this.#all(({ methods }) => answers.push(methods.resetCache?.()));
    if (answers.includes(false)) return false;
    return answers.includes(true) ? true : undefined;
  }

  hasPendingWork(): boolean {
    const failures: ChildFailure[] = [];
    let answer = false;
    for (const child of this.#children)
      if (this.#try(failures, child, () => child.methods.hasPendingWork?.()) === true) answer = true;
    if (failures.length > 0) throw new ChildrenError(failures, answer);
    return answer;
  }

  shutdown(): void {
    this.#all(({ methods }) => methods.shutdown?.());
  }

  /** Calls every child. @throws ChildrenError after all calls, if some child threw */
  #all(call: (child: Child) => unknown): void {
    const failures: ChildFailure[] = [];
    for (const child of this.#children) this.#try(failures, child, () => call(child));
    if (failures.length === 0) return;
    // No answer can replace this one, so the error is an ordinary error.
    throw new Error(new ChildrenError(failures).message);
  }

  /**
   * Calls one child. Notes its error, and also the errors of the child's own children.
   * @param parse checks the answer, and throws if the answer is invalid
   */
  #try<T = unknown>(
    failures: ChildFailure[],
    { first, name }: Child,
    call: () => unknown,
    parse: (answer: unknown) => T = (answer) => answer as T,
  ): T | typeof FAILED {
    try {
      return parse(call());
    } catch (error) {
      if (!(error instanceof ChildrenError)) {
        failures.push({ child: first, name, error });
        return FAILED;
      }
      for (const each of error.failures) failures.push({ ...each, child: first + each.child });
      return parse(error.answer);
    }
  }
}
