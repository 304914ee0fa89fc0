// The smallest connector that the types allow.
import type {
  BlockLists,
  ConnectorOutput,
  Finished,
  HandOver,
  Match,
  SchedulerConnector,
  WorkerConnector,
} from '../../../src/connector.js';
import type { Plan, Request } from '../../../src/index.js';
import type { FinishReason } from '../../../src/scheduler/request/status.js';

/** The metadata from the scheduler's side for the workers: the requests to load, by handle. */
interface Loads {
  step: number;
  loads: ReadonlyMap<number, number>;
}

/** A connector that brings one block's worth of tokens for every new request: the smallest that the contract allows. */
export class OneBlockConnector implements SchedulerConnector<Loads> {
  readonly protection = 'own';
  readonly #blockSize: number;
  #loads = new Map<number, number>();

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    const numTokens = numLocalTokens === 0 && request.numTokens > this.#blockSize ? this.#blockSize : 0;
    return { numTokens, async: numTokens > 0 };
  }

  updateStateAfterAlloc(request: Request, [blocks]: BlockLists, numExternalTokens: number): void {
    if (numExternalTokens > 0) this.#loads.set(request.handle, blocks[0]);
  }

  buildMetadata(plan: Plan): Loads {
    const loads = this.#loads;
    this.#loads = new Map();
    return { step: plan.step, loads };
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    for (const { handle } of output.finishedReceiving ?? []) this.#loads.delete(handle);
  }

  requestFinished(request: Request, reason: FinishReason, { numSettledTokens }: HandOver): Finished {
    const sends = reason !== 'abort' && numSettledTokens > 0;
    return sends ? { delayFree: true, transferParams: { handle: request.handle } } : { delayFree: false };
  }
}

/** Its worker side: every load is done when the step ran. */
export class OneBlockWorker implements WorkerConnector<Loads> {
  #done: number[] = [];

  startLoads(metadata: Loads | undefined): void {
    this.#done.push(...(metadata?.loads.keys() ?? []));
  }

  getFinished(finished: readonly number[]): ConnectorOutput {
    const finishedReceiving = this.#done.map((handle) => ({ handle }));
    this.#done = [];
    return { finishedSending: finished.map((handle) => ({ handle })), finishedReceiving };
  }
}

// Code that the contract forbids. If any of it compiles, the contract has become weaker.

// @ts-expect-error `protection` is one of three words.
export const unknownProtection: SchedulerConnector['protection'] = 'none';

// @ts-expect-error A match says whether it is asynchronous.
export const halfMatch: Match = { numTokens: 16 };

// @ts-expect-error Reports name incarnations by handle, not requests by external id.
export const reportById: ConnectorOutput = { finishedSending: ['a'] };

// @ts-expect-error A block that failed is named.
export const nameless: ConnectorOutput = { invalidBlocks: [{ handle: 1 }] };

// @ts-expect-error A connector must say what happens when a request ends.
export class Forgetful implements SchedulerConnector {
  readonly protection = 'fence';
  getNumNewMatchedTokens = (): Match => ({ numTokens: null, async: false });
  updateStateAfterAlloc(): void {}
  buildMetadata(): undefined {}
  updateConnectorOutput(): void {}
}
