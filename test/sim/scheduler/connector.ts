// The connector's scheduler side, with given decisions.
import type {
  BlockPins,
  Finished,
  Match,
  Protection,
  SchedulerConnector,
} from '../../../src/scheduler/connector/connector.js';
import type { BlockLists, HandOver } from '../../../src/scheduler/connector/kv-view.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { Request } from '../../../src/scheduler/request/request.js';
import type { FinishReason } from '../../../src/scheduler/request/status.js';
import type { MatchFacts, Reason } from '../audit/facts.js';
import type { TransferAudit } from '../audit/transfer-audit.js';
import { Pins } from '../shared/kv/pins.js';

/**
 * The decisions of a simulated connector. A decision throws `Refusal` where the connector is to
 * throw.
 */
export interface Decisions {
  match(handle: number, numTokens: number, numLocal: number): Match;
  /** The children that will report the end; null: the blocks are free. */
  finished(handle: number, reason: Reason, numBlocks: number): readonly number[] | null;
  /** Whether a request must not end without blocks to send. */
  delivers(handle: number): boolean;
  /** Every request must have all of its KV when it stops. */
  readonly mustDeliver: boolean;
  /** At any call of a method of the connector. */
  called(method: string): void;
}

/** The error that a connector throws on purpose. */
export class Refusal extends Error {}

/** A load that was begun in the plan being made. */
export interface BegunLoad {
  handle: number;
  child: number;
  async: boolean;
  /** Positions [from, to) arrive. */
  from: number;
  to: number;
}

/** A finished request whose blocks are read by children. */
export interface BegunStore {
  handle: number;
  children: readonly number[];
  /** By group; a place that holds nothing is 0. */
  rows: readonly (readonly number[])[];
}

/** The scheduler's side of the simulated fabric: asks for decisions, tells the auditor, keeps what was begun. */
export class SimConnector implements SchedulerConnector<number> {
  readonly protection: Protection;
  readonly reporters: readonly (readonly number[])[];
  readonly pins = new Pins();
  loads: BegunLoad[] = [];
  stores: BegunStore[] = [];
  pendingWork = false;
  /** Called with events that explain a failed run. */
  note: (event: string) => void = () => {};
  /** Called with each new request before anything else is. */
  opened: (handle: number) => void = () => {};
  /**
   * The error that the auditor threw inside of a call: the scheduler takes it for a failure of the
   * connector.
   */
  violation: unknown = null;
  /** Called with each request whose sending it is asked to stop. */
  cancelling: (handle: number) => void = () => {};
  resetAnswer: boolean | undefined = undefined;
  audit: TransferAudit | null = null;
  readonly #decisions: Decisions;
  readonly #offers = new Map<number, { local: number; match: Match }>();
  step = 0;

  constructor(protection: Protection, reporters: readonly (readonly number[])[], decisions: Decisions) {
    this.protection = protection;
    this.reporters = reporters;
    this.#decisions = decisions;
  }

  bindPins(pins: BlockPins): void {
    this.pins.bind(pins);
  }

  #guard<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof Refusal)) this.violation ??= error;
      throw error;
    }
  }

  onNewRequest({ handle }: Request): void {
    this.#guard(() => {
      this.opened(handle);
      this.#call('onNewRequest', () => this.audit?.doomed(handle));
    });
  }

  /** Where the connector may throw on purpose; the auditor is informed first. */
  #call(method: string, refused: () => void): void {
    try {
      this.#decisions.called(method);
    } catch (error) {
      if (error instanceof Refusal) refused();
      throw error;
    }
  }

  /** Counted, and otherwise of no consequence. */
  updateConnectorOutput(): void {
    this.#guard(() => this.#call('updateConnectorOutput', () => this.audit?.threw()));
  }

  cancelSending({ handle }: Request): void {
    this.#guard(() => {
      this.note(`  stops sending ${handle}`);
      this.cancelling(handle);
      this.#call('cancelSending', () => this.audit?.threw());
    });
  }

  getNumNewMatchedTokens({ handle, numTokens }: Request, numLocalTokens: number): Match {
    return this.#guard(() => {
      this.#call('getNumNewMatchedTokens', () => this.audit?.matched(handle, numLocalTokens, null));
      const match = this.#decisions.match(handle, numTokens, numLocalTokens);
      const makesSense = isSensible(match, numTokens - numLocalTokens);
      this.audit?.matched(handle, numLocalTokens, makesSense ? facts(match) : null);
      this.#offers.set(handle, { local: numLocalTokens, match });
      return match;
    });
  }

  updateStateAfterAlloc({ handle }: Request, lists: BlockLists, numExternalTokens: number): void {
    this.#guard(() => {
      const offer = this.#offers.get(handle);
      this.#offers.delete(handle);
      this.#call('updateStateAfterAlloc', () => this.audit?.failed(handle));
      this.audit?.allocated(handle, copied(lists), numExternalTokens, this.step);
      if (numExternalTokens === 0 || offer === undefined) return;
      const { local, match } = offer;
      const range = { from: local, to: local + numExternalTokens };
      this.loads.push({ handle, child: match.child ?? 0, async: match.async, ...range });
    });
  }

  buildMetadata(plan: Plan): number {
    return this.#guard(() => {
      this.step = plan.step + 1;
      this.pins.sweep();
      this.#call('buildMetadata', () => {
        this.audit?.metadata(plan.step, true);
        this.loads = [];
      });
      this.audit?.metadata(plan.step, false);
      return plan.step;
    });
  }

  requestFinished(request: Request, named: FinishReason, handOver: HandOver): Finished {
    const { handle, failure, numTokens } = request;
    const rows = copied(handOver.blocks);
    const blocks = rows.flatMap((row) => row.filter((block) => block !== 0));
    return this.#guard(() => {
      this.note(`  ends ${handle} ${named} ${failure ?? ''}`);
      this.#offers.delete(handle);
      this.loads = this.loads.filter((load) => load.handle !== handle);
      this.audit?.finishing(handle, named);
      if (this.#decisions.mustDeliver) this.audit?.delivered(handle, named, numTokens, handOver.numTokens);
      this.#call('requestFinished', () => this.audit?.finished(handle, named, 'failed'));
      const children = this.#decisions.finished(handle, named, blocks.length);
      if (children !== null) this.stores.push({ handle, children, rows });
      const delayFree = children !== null && this.protection === 'own';
      this.audit?.finished(handle, named, delayFree ? children : null);
      if (children !== null && this.protection === 'pin') this.pins.pin(blocks);
      return delayFree ? { delayFree, children: children as readonly number[] } : { delayFree };
    });
  }

  requiresKvDelivery({ handle }: Request): boolean {
    return this.#guard(() => {
      this.#call('requiresKvDelivery', () => this.audit?.threw());
      const answer = this.#decisions.delivers(handle);
      if (answer) this.audit?.delivers(handle);
      return answer;
    });
  }

  hasPendingWork(): boolean {
    return this.pendingWork || this.pins.owesSweep;
  }

  resetCache(): boolean | undefined {
    return this.resetAnswer;
  }
}

/** Lists are borrowed. */
function copied(lists: BlockLists): number[][] {
  return lists.map((list) => Array.from(list));
}

function isSensible({ numTokens, async }: Match, room: number): boolean {
  if (numTokens === null) return true;
  return Number.isInteger(numTokens) && numTokens >= 0 && numTokens <= room && !(numTokens === 0 && async);
}

function facts({ numTokens, async, child = 0 }: Match): MatchFacts {
  return { numTokens, async, child };
}
