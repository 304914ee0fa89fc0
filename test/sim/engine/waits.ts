import { ruledConfig } from '../../../src/scheduler/options/options.js';
import { type Sight, Violation } from '../audit/facts.js';
import type { SimGrammar } from './grammar.js';
import type { Stage } from './stage.js';
import type { SimConnector } from './tier/connector.js';
import { Timeouts } from './timeouts.js';

/** Since when a request waits for something that has a deadline. */
interface Wait {
  key: string;
  since: number;
}

/** Requests that wait for something that has a deadline, and how long they have waited. */
export class Waits {
  readonly timeouts: Timeouts;
  readonly #stage: Stage;
  readonly #connector: SimConnector | null;
  readonly #waits = new Map<number, Wait>();

  constructor(stage: Stage, connector: SimConnector | null) {
    this.#stage = stage;
    this.#connector = connector;
    this.timeouts = new Timeouts(stage);
  }

  /** Notes since when each request waits for something that has a deadline. */
  watch(sight: Sight): void {
    this.timeouts.watch(sight);
    const allocations = this.#connector?.allocations;
    for (const { handle, status } of [...sight.requests, ...sight.draining]) {
      const key = `${status} ${allocations?.get(handle)}`;
      if (this.#waits.get(handle)?.key !== key) this.#waits.set(handle, { key, since: this.#stage.now });
    }
  }

  #deadlineOf(status: string): number {
    const {
      load = 0,
      grammar = 0,
      streamingInput = 0,
      reclaim = 0,
    } = this.#stage.setup.engine.deadlines || {};
    if (status === 'WAITING_FOR_REMOTE_KVS') return load;
    if (status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR') return grammar;
    if (status === 'WAITING_FOR_STREAMING_REQ') return streamingInput;
    return status.startsWith('FINISHED') ? reclaim : 0;
  }

  #isExpired(handle: number): boolean {
    const wait = this.#waits.get(handle);
    const deadline = wait === undefined ? 0 : this.#deadlineOf(wait.key.split(' ')[0]);
    return wait !== undefined && deadline > 0 && this.#stage.now >= wait.since + deadline;
  }

  #hasFailed(handle: number): boolean {
    const { scheduler } = this.#stage.engine;
    if (ruledConfig(scheduler.config).grammarFailures !== 'update') return false;
    return (scheduler.getByHandle(handle)?.grammar as SimGrammar | null)?.hasFailed === true;
  }

  /** A request whose deadline is over by now may end for it: that explains its end. */
  blame(): void {
    const { load = 0 } = this.#stage.setup.engine.deadlines || {};
    for (const [handle, since] of this.#connector?.asking ?? []) {
      if (load > 0 && this.#stage.now >= since + load) this.#stage.blame(handle, 'wait');
    }
    for (const handle of this.timeouts.late()) this.#stage.blame(handle, 'wait');
    for (const handle of this.#waits.keys()) {
      if (this.#isExpired(handle)) this.#stage.blame(handle, 'wait');
      if (this.#stage.engine.scheduler.getByHandle(handle) === undefined) this.#waits.delete(handle);
    }
  }

  /**
   * I10: after a schedule no wait is past its deadline. With the rule `grammarFailures: 'update'`,
   * a request whose grammar has failed waits for the next update instead.
   * @param isHeld whether a client holds the blocks of this request
   * @param hasUpdated whether a step was updated behind that schedule
   */
  check(sight: Sight, isHeld: (handle: number) => boolean, hasUpdated: boolean): void {
    for (const handle of this.timeouts.late())
      throw new Violation(
        'I10',
        `${this.#stage.name(handle)} goes on, and its time in the queue or as a whole is over`,
      );
    const isLoading = (handle: number) =>
      this.#stage.engine.scheduler.getByHandle(handle)?.outstanding?.hasAny('load') === true;
    for (const { handle, status } of [...sight.requests, ...sight.draining]) {
      if (!this.#isExpired(handle) || (status === 'WAITING_FOR_REMOTE_KVS' && !isLoading(handle))) continue;
      if (isHeld(handle) || (!hasUpdated && this.#hasFailed(handle))) continue;
      throw new Violation('I10', `${this.#stage.name(handle)} is ${status}, and its deadline is over`);
    }
  }
}
