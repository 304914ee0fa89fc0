import { type PlanFacts, type Seen, type Sight, Violation } from './facts.js';
import type { Ledger } from './ledger.js';

/** Admissions, and requests that give their blocks up for other requests. */
export class AdmissionAudit {
  readonly #ledger: Ledger;
  /** The requests as they were before the call. */
  #before = new Map<number, Seen>();
  #pinned: number[] = [];

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** @param plan the one that was made in this call; null: the call made none */
  saw(sight: Sight, plan: PlanFacts | null): void {
    if (plan !== null) {
      const still = sight.requests.filter(({ handle, container }) => {
        // A request that is held up in this step gives no blocks.
        if (this.#ledger.patient.has(handle)) return false;
        return container === 'running' && this.#before.get(handle)?.container === 'running';
      });
      this.#victims(sight, still);
      this.#givenUp(sight, still.length);
      this.#takenIn(sight, plan);
    }
    this.#pinned = [...sight.pins.keys()];
    this.#before = new Map(sight.requests.map((seen) => [seen.handle, seen]));
  }

  /** A request whose blocks something uses gives no blocks, so that it is no victim while there is another. */
  #victims({ requests }: Sight, still: readonly Seen[]): void {
    const { accounts } = this.#ledger;
    const isUsed = (handle: number): boolean => (accounts.get(handle)?.uses.size ?? 0) > 0;
    const free = still.find(({ handle }) => !isUsed(handle));
    if (free === undefined) return;
    for (const { handle, id, container } of requests) {
      if (container === 'running' || this.#before.get(handle)?.container !== 'running') continue;
      if (isUsed(handle))
        throw new Violation('I10', `${id} was preempted, whose blocks are used, and ${free.id} was not`);
    }
  }

  /**
   * A request that waits with loaded blocks gives them up in two cases only: another request cannot
   * be helped otherwise, or it found no row. The latter takes the row, unless it then finds too few
   * blocks.
   */
  #givenUp({ requests, rowsInUse }: Sight, numStill: number): void {
    const lacksRow = rowsInUse >= this.#ledger.rules.numRows - 1;
    for (const { handle, blocks, container, numComputed } of requests) {
      const before = this.#before.get(handle);
      if (before === undefined || before.container === 'running' || container === 'running') continue;
      // The request was tried and did not fit: a window of one token releases every block, and the
      // row is still there.
      if (numComputed > 0) continue;
      if (before.blocks.length === 0 || before.numComputed === 0 || blocks.length > 0) continue;
      // The longest idle session may give its blocks to anybody.
      if (before.status === 'WAITING_FOR_STREAMING_REQ') continue;
      const { name, uses } = this.#ledger.account(handle);
      if (uses.size > 0) throw new Violation('I10', `${name} gives up blocks that ${[...uses]} uses`);
      if (numStill > 1 && !lacksRow)
        throw new Violation('I10', `${name} gives up its blocks, and ${numStill} others run`);
    }
  }

  /**
   * I9, I10: the first in line is taken in where there is room for all its known tokens, even while
   * other requests drain or load.
   */
  #takenIn(sight: Sight, plan: PlanFacts): void {
    const { rules, isPaused, patient } = this.#ledger;
    const { requests, running, free } = sight;
    // A finished request needs no row: it gives up its row for a running request.
    const ended = [...sight.draining, ...sight.quarantined].filter(({ blocks }) => blocks.length > 0);
    const rowsInUse = sight.rowsInUse - ended.length;
    if (isPaused || plan.preempted.length > 0 || plan.totalTokens >= rules.maxNumBatchedTokens) return;
    const { draftSlots, seatsIdle, spare, padDecode, loadReservation, preemptedOutputs } = rules.version;
    const slots = draftSlots * (plan.entries.length + 1);
    if (plan.totalTokens + slots >= rules.maxNumBatchedTokens) return;
    const idle = requests.filter(({ status }) => status === 'WAITING_FOR_STREAMING_REQ').length;
    if (running.length + (seatsIdle ? idle : 0) >= rules.maxNumSeqs || rowsInUse >= rules.numRows) return;
    // Padding may not fit, a load may have to leave room, and outputs in flight may have to come
    // first. Then nobody else is looked at.
    const mayStop = (padDecode && rules.maxDrafts > 0) || (loadReservation && rules.reporters !== null);
    if (mayStop || preemptedOutputs === 'await') return;
    // A request ended in this call, and gave blocks back perhaps when all others had had their
    // turn.
    if (requests.length < this.#before.size) return;
    const isPassedOver = ({ status, handle }: Seen): boolean =>
      status.startsWith('WAITING_FOR_') || patient.has(handle);
    if (!requests.every((seen) => seen.container !== 'skipped' || isPassedOver(seen))) return;
    const first = requests.find(({ id }) => id === sight.waiting[0]);
    if (first === undefined || patient.has(first.handle) || first.numTokens >= rules.maxModelLen) return;
    // A state may have to wait for the step that makes it, and then everybody behind it waits.
    if (rules.groups.some(({ type }) => type === 'mamba')) return;
    const needed = rules.groups.reduce(
      (sum, { size }) => sum + Math.ceil((first.numTokens + rules.maxDrafts) / size),
      0,
    );
    // The connector lets blocks go when the plan has been made.
    const numFree = free.length - this.#pinned.filter((block) => !sight.pins.has(block)).length;
    if (needed + (running.length > 0 ? spare : 0) > numFree) return;
    throw new Violation('I10', `${first.id} waits, needs ${needed} blocks, and ${numFree} are free`);
  }
}
