// The checks after every event.
import type { Engine } from '../../../src/engine/engine.js';
import { type Sight, Violation } from '../audit/facts.js';
import { numSinks, numUsable } from '../audit/group-rules.js';
import { checkBlocks, checkGauges, checkTokens, Places } from '../audit/sight-checks.js';
import type { Client } from './clients.js';
import type { Stage } from './stage.js';

/** Anomalies that clients cause when they name requests that have ended. */
const CLIENTS_CAUSE = new Set([
  'abort-unknown',
  'abort-finished',
  'chunk-finished',
  'end-finished',
  'stale-handle',
]);

/**
 * Compares the visible state of an engine after an event with the correct state. The audit shares
 * no code with the engine.
 */
export class EngineAudit {
  readonly #stage: Stage;
  readonly #engine: Engine;
  /** Handles that were seen unfinished. */
  readonly #lived = new Set<number>();
  /** Requests that have ended for their clients and not for the engine, and for how many rounds. */
  #ghosts = new Map<number, number>();
  /** Consecutive steps in which nothing was scheduled although something could have been. */
  #idleSteps = 0;
  /** The same, counted only while nothing is in quarantine, which only an operator can end. */
  #wedgedSteps = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#engine = stage.engine;
  }

  /** @throws Violation */
  check(sight: Sight, clients: ReadonlyMap<number, Client>): void {
    this.#containers(sight, clients);
    this.#blocks(sight);
    checkGauges(sight);
    this.#anomalies(sight);
  }

  /** I1, I2, I9. */
  #containers(sight: Sight, clients: ReadonlyMap<number, Client>): void {
    const places = new Places(sight);
    const { maxNumSeqs = 0, numSpeculativeTokens = 0 } = this.#stage.setup.engine;
    const sizes = this.#stage.limits.groups.map(({ size }) => size);
    for (const seen of sight.requests) {
      const { handle } = seen;
      const name = this.#stage.name(handle);
      this.#lived.add(handle);
      if (!clients.has(handle)) throw new Violation('I1', `${name} was submitted by nobody`);
      places.check(seen, name);
      checkTokens(seen, name, numSpeculativeTokens, sizes);
    }
    places.end();
    for (const { handle, finished } of [...sight.draining, ...sight.quarantined]) {
      if (!finished) throw new Violation('I6', `${this.#stage.name(handle)} drains and has not finished`);
    }
    if (sight.running.length > maxNumSeqs) throw new Violation('I9', `${sight.running.length} run`);
  }

  /** I3, I12. */
  #blocks(sight: Sight): void {
    const { numRows = 0 } = this.#stage.setup.engine;
    const { limits } = this.#stage;
    let rows = 0;
    for (const { blocks } of [...sight.requests, ...sight.draining]) if (blocks.length > 0) rows++;
    let dead = 0;
    for (const { blocks } of sight.quarantined) if (blocks.length > 0) dead++;
    checkBlocks(sight, limits.numBlocks, numSinks(limits));
    if (dead > 0) {
      throw new Violation('I12', `${dead} quarantined requests have rows`);
    }
    const inUse = sight.rowsInUse;
    if (inUse > numRows || inUse < rows + dead) {
      throw new Violation(
        'I12',
        `${rows} hold blocks, ${dead} more in quarantine, in ${inUse} rows of ${numRows}`,
      );
    }
  }

  /** I8: a world in which nobody does anything wrong counts nothing. */
  #anomalies({ anomalies }: Sight): void {
    for (const [reason, count] of Object.entries(anomalies)) {
      if (this.#stage.excused.has(reason) || CLIENTS_CAUSE.has(reason) || count === 0) continue;
      throw new Violation('I8', `${reason} was counted ${count} times, and nobody caused it`);
    }
  }

  /**
   * I1: after a round. A request whose client knows its end is gone when the next round is over.
   */
  ghosts(sight: Sight, clients: ReadonlyMap<number, Client>): void {
    const before = this.#ghosts;
    this.#ghosts = new Map();
    for (const { handle } of sight.requests) {
      if (clients.get(handle)?.stream.ended !== true) continue;
      const rounds = (before.get(handle) ?? 0) + 1;
      this.#ghosts.set(handle, rounds);
      if (rounds > 2)
        throw new Violation('I1', `${this.#stage.name(handle)} has ended for its client, and goes on`);
    }
  }

  /**
   * I10: after a step of the engine. A request waits for nothing outside, and nothing outside keeps
   * blocks or rows from it. Then something has to be scheduled. If nothing is scheduled for
   * `stallSteps` steps, health has to say so.
   */
  stepped(sight: Sight, isScheduled: boolean, isWedged: boolean): void {
    const stage = this.#stage;
    const { stallSteps = 1000 } = stage.setup.engine;
    if (isScheduled || !isWedged) {
      if (this.#idleSteps > 0 && isScheduled && this.#isStalled()) {
        stage.broke('I13', 'something was scheduled, and health still says that nothing is');
      }
      this.#idleSteps = 0;
      this.#wedgedSteps = 0;
      return;
    }
    this.#idleSteps++;
    if (this.#idleSteps > stallSteps && !this.#isStalled()) {
      throw new Violation('I13', `nothing was scheduled in ${this.#idleSteps} steps, and health is well`);
    }
    this.#wedgedSteps = sight.quarantined.length === 0 ? this.#wedgedSteps + 1 : 0;
    if (this.#wedgedSteps > 60) {
      const waiting = sight.requests.map(({ handle, status }) => `${stage.name(handle)} ${status}`);
      throw new Violation('I10', `nothing was scheduled in ${this.#wedgedSteps} steps; there are ${waiting}`);
    }
  }

  #isStalled(): boolean {
    return this.#engine.health().reasons.some((reason) => reason.startsWith('nothing was scheduled'));
  }

  /** I19: everything is over. */
  empty(sight: Sight): void {
    const usable = numUsable(this.#stage.limits);
    const { free, rowsInUse, requests, draining, quarantined, hasWork, pins } = sight;
    const left = [...requests, ...draining, ...quarantined].map(({ handle }) => this.#stage.name(handle));
    if (left.length > 0) throw new Violation('I19', `${left} are left`);
    if (free.length !== usable) throw new Violation('I19', `${free.length} of ${usable} blocks are free`);
    if (rowsInUse > 0 || pins.size > 0)
      throw new Violation('I19', `${rowsInUse} rows, ${pins.size} pinned blocks`);
    if (hasWork || this.#engine.hasWork())
      throw new Violation('I10', 'nothing is left, and hasWork() says there is');
  }

  get lived(): ReadonlySet<number> {
    return this.#lived;
  }
}
