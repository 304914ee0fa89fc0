import { finishFromOutside } from '../../../src/scheduler/life/finish.js';
import type { Request, RequestInput } from '../../../src/scheduler/request/request.js';
import { FinishCode } from '../../../src/scheduler/request/status.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { SchedulerState } from '../../../src/scheduler/state/scheduler-state.js';
import type { Account } from '../audit/account.js';
import type { Auditor } from '../audit/auditor.js';
import { type Sight, Violation } from '../audit/facts.js';
import { SimBorrower } from '../shared/borrow/borrower.js';
import { type BorrowerShape, CAUSED_BY_BORROWERS } from '../shared/borrow/draw-borrower.js';
import { seizeState } from '../shared/borrow/seized-state.js';
import type { Rng } from '../shared/rng.js';

export interface BorrowingOptions {
  shape: BorrowerShape;
  rng: Rng;
  isCalm(): boolean;
}

interface Surroundings {
  readonly scheduler: Scheduler;
  readonly auditor: Auditor;
  note(event: string): void;
  name(handle: number): string;
}

/** A borrowing adapter in a world, and the anomalies that the world must find. */
export class Borrowing {
  readonly adapter: SimBorrower;
  readonly #world: Surroundings;
  /** As soon as a request was added. */
  #state: SchedulerState | null = null;
  #violation: Violation | null = null;

  constructor(world: Surroundings, { shape, rng, isCalm }: BorrowingOptions) {
    this.#world = world;
    this.adapter = new SimBorrower(shape, {
      ...{ rng, isCalm },
      broke: (invariant, message) => {
        this.#violation ??= new Violation(invariant, `the borrowing adapter: ${message}`);
      },
      failed: (handle) => {
        world.auditor.ledger.account(handle).isDoomed = true;
      },
      endNow: (request) => this.#endNow(request),
    });
  }

  /** @throws Violation the first that was found */
  check(): void {
    if (this.#violation !== null) throw this.#violation;
  }

  add(input: RequestInput): number {
    const { scheduler } = this.#world;
    if (this.#state !== null) return scheduler.add(input);
    let handle = 0;
    this.#state = seizeState(() => {
      handle = scheduler.add(input);
    });
    return handle;
  }

  /** A request ends between processing and restoring: upstream a client does that from another thread. */
  #endNow(request: Request): void {
    if (this.#state === null || request.isFinished) return;
    this.#world.note(`  ${this.#world.name(request.handle)} ends while it is lent`);
    const { ledger } = this.#world.auditor;
    finishFromOutside(this.#state, [request], FinishCode.abort);
    ledger.end(ledger.account(request.handle), 'abort', 'none');
  }

  /** Puts a request that has ended among the running. @returns whether there was one */
  plantZombie(): boolean {
    const zombie = this.adapter.zombie();
    if (this.#state === null || zombie === undefined) return false;
    this.#state.queues.running.push(zombie);
    zombie.container = 'running';
    this.#world.note(`${this.#world.name(zombie.handle)}, which has ended, stands among the running`);
    return true;
  }

  /**
   * Somebody ends these requests from outside. The adapter gets their ends before, and the statuses
   * that it leaves wrong are counted.
   */
  endsFromOutside<T>(targets: ReadonlySet<Account>, act: () => T): T {
    const stale = (): number => this.#world.scheduler.stats().anomalies['realigned-status'] ?? 0;
    const [counted, left] = [stale(), this.adapter.numStale];
    const answer = act();
    for (const { handle, name } of targets)
      if (!this.adapter.wasTold(handle))
        throw new Violation('I5', `the borrowing adapter was not told that somebody ends ${name}`);
    if (stale() - counted !== this.adapter.numStale - left)
      throw new Violation(
        'I8',
        `${this.adapter.numStale - left} statuses were left wrong, ${stale() - counted} were counted`,
      );
    return answer;
  }

  /** A step was planned: a request that was held back must not be in it. */
  planned(): void {
    const { patient, live } = this.#world.auditor.ledger;
    for (const handle of this.adapter.heldUp) patient.add(handle);
    if (this.adapter.threwAtProcess) for (const { handle } of live.values()) patient.add(handle);
  }

  /** Takes out of a sight what the adapter has caused. */
  saw(sight: Sight): void {
    const others = Object.entries(sight.anomalies).filter(
      ([reason]) => !CAUSED_BY_BORROWERS.includes(reason),
    );
    sight.anomalies = Object.fromEntries(others);
  }

  /** Everything is over: the adapter has cleaned up each request, once. */
  end(): void {
    for (const { handle, name } of this.#world.auditor.ledger.accounts.values())
      if (!this.adapter.hasForgotten(handle))
        throw new Violation('I5', `the borrowing adapter was never told to forget ${name}`);
  }
}
