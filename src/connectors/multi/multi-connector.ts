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
import type { TakenMatch } from '../../scheduler/connector/connector-answers.js';
import type { BlockLists, HandOver, KvView } from '../../scheduler/connector/kv-view.js';
import { PartialMetadata } from '../../scheduler/connector/partial-metadata.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Request } from '../../scheduler/request/request.js';
import type { FinishReason } from '../../scheduler/request/status.js';
import { checkOptions } from '../base/option-checks.js';
import { type Child, type NamedConnector, pinsOf, takeChildren } from './child.js';
import { takeFinished, takeMatch } from './child-answers.js';
import { outputOf } from './child-output.js';
import { ChildView, withoutParams } from './child-view.js';
import { type ChildFinished, mergeFinished } from './merge-finished.js';
import type { MultiMetadata, MultiSaid } from './multi-metadata.js';

/** Options of a `MultiConnector`. */
export interface MultiConnectorOptions {
  /**
   * The connectors, each once, in the order in which they are asked: the first one that has something loads it. Give
   * them names, which stand in messages; else they are called by their class and place.
   */
  children: readonly (SchedulerConnector | NamedConnector)[];
  /** The ranks on which they run: as many as the engine has workers. Children that declare `reporters` keep these. */
  numRanks: number;
}

const OPTIONS = knownNames<MultiConnectorOptions>('the options of a MultiConnector', {
  children: true,
  numRanks: true,
});

/** Stands for the answer of a child that threw, or whose answer makes no sense. */
const FAILED = Symbol('the child failed');

/** Who loads for a request, and what the other children are shown of the request. */
interface Ownership {
  readonly owner: Child;
  readonly standIn: Request;
}

/**
 * Several connectors as one (vLLM MultiConnector). Every child stores and hands over as it likes. For each load there is
 * one owner: the first child, in their order, that has something. Only the owner is told to load, only its reports end
 * the load, and the other children do not see the request's transfer params while there is an owner.
 *
 * A child that fails in a method costs what it would cost alone. The others are called all the same, and the failure is
 * counted with the child's name.
 */
export class MultiConnector implements SchedulerConnector<MultiMetadata, MultiSaid> {
  readonly protection: readonly Protection[];
  readonly reporters: readonly (readonly number[])[];
  /** That of the first child that has one. */
  readonly hashSeed: Uint8Array | null;
  readonly #children: readonly Child[];
  readonly #firsts: readonly number[];
  /** By handle: the owner of the request's load, from the answer that offered the load to the next answer, or the end. */
  readonly #owners = new Map<number, Ownership>();
  /** Of requests whose blocks somebody still sends: who. */
  readonly #senders = new WeakMap<Request, readonly Child[]>();

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: MultiConnectorOptions) {
    checkOptions(options, OPTIONS);
    const numRanks = checkInteger('numRanks', options.numRanks, 1, 65_536);
    this.#children = takeChildren(options.children, numRanks);
    this.protection = [...new Set(this.#children.flatMap(({ methods }) => methods.protection))];
    this.reporters = this.#children.flatMap(({ methods }) => methods.reporters);
    this.hashSeed = this.#children.find(({ methods }) => methods.hashSeed !== null)?.methods.hashSeed ?? null;
    this.#firsts = [...this.#children.map(({ first }) => first), this.reporters.length];
  }

  /** The children's names, in their order; a name's place is its `child` in reports, unless a child is itself several. */
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

  onNewRequest(request: Request): void {
    this.#all(({ methods }) => methods.onNewRequest?.(request));
  }

  requestRefused(transferParams: Readonly<Record<string, unknown>>): void {
    this.#all(({ methods }) => methods.requestRefused?.(transferParams));
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    const failures: ChildFailure[] = [];
    const most = request.numTokens - numLocalTokens;
    let owner: Child | null = null;
    let offer: TakenMatch | null = null;
    let isLater = false;
    let wakes = true;
    for (const child of this.#children) {
      const answer = this.#try(
        failures,
        child,
        () => child.methods.getNumNewMatchedTokens(request, numLocalTokens),
        (given) => takeMatch(child, given, most),
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
    // Whoever cannot say yet may have more than the first one that can.
    if (isLater) match = { numTokens: null, async: false, wakes };
    else if (owner !== null && offer !== null) {
      this.#owners.set(request.handle, { owner, standIn: withoutParams(request) });
      match = { ...offer, child: owner.first + offer.child };
    }
    if (failures.length > 0) throw new ChildrenError(failures, match);
    return match;
  }

  updateStateAfterAlloc(request: Request, blocks: BlockLists, numExternalTokens: number): void {
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
    // The owner's load does not begin, so the request would wait for nothing.
    if (!hasLoad) throw new Error(new ChildrenError(failures).message);
    if (failures.length > 0) throw new ChildrenError(failures);
  }

  buildMetadata(plan: Plan): MultiMetadata | PartialMetadata<MultiMetadata> {
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

  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished {
    this.#owners.delete(request.handle);
    const failures: ChildFailure[] = [];
    const answers: ChildFinished[] = [];
    const unclear: Child[] = [];
    for (const child of this.#children) {
      const answer = this.#try(
        failures,
        child,
        () => child.methods.requestFinished(request, reason, handOver),
        (given) => takeFinished(child, given),
      );
      if (answer === FAILED) unclear.push(child);
      else answers.push({ child, answer });
    }
    const delaying = answers.filter(({ answer }) => answer.delayFree).map(({ child }) => child);
    if (delaying.length + unclear.length > 0) this.#senders.set(request, [...delaying, ...unclear]);
    return mergeFinished(answers, unclear, failures);
  }

  requiresKvDelivery(request: Request): boolean {
    const failures: ChildFailure[] = [];
    let answer = false;
    for (const child of this.#children)
      if (this.#try(failures, child, () => child.methods.requiresKvDelivery?.(request)) === true)
        answer = true;
    if (failures.length > 0) throw new ChildrenError(failures, answer);
    return answer;
  }

  /** Only children that send blocks of the request are asked to stop. */
  cancelSending(request: Request): void {
    const senders = this.#senders.get(request) ?? [];
    this.#all((child) => {
      if (senders.includes(child)) child.methods.cancelSending?.(request);
    });
  }

  /** Every tier is reset, also if one of them cannot be. Undefined: no child has anything to reset. */
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

  /** Calls every child. @throws ChildrenError when all were called, if some threw */
  #all(call: (child: Child) => unknown): void {
    const failures: ChildFailure[] = [];
    for (const child of this.#children) this.#try(failures, child, () => call(child));
    if (failures.length === 0) return;
    // There is no answer to be taken in place of this one, so it is an error like any other.
    throw new Error(new ChildrenError(failures).message);
  }

  /**
   * Calls one child. Its error is noted, also what some of its own children threw, if it has any.
   * @param take checks its answer, and throws if that makes no sense
   */
  #try<T = unknown>(
    failures: ChildFailure[],
    { first, name }: Child,
    call: () => unknown,
    take: (answer: unknown) => T = (answer) => answer as T,
  ): T | typeof FAILED {
    try {
      return take(call());
    } catch (error) {
      if (!(error instanceof ChildrenError)) {
        failures.push({ child: first, name, error });
        return FAILED;
      }
      for (const each of error.failures) failures.push({ ...each, child: first + each.child });
      return take(error.answer);
    }
  }
}
