import type { Engine } from '../../../src/engine/engine.js';
import { type Seen, type Sight, Violation } from '../audit/facts.js';
import type { Client } from './clients.js';
import type { Stage } from './stage.js';

/** Anomalies that clients cause who abort what has ended, or that come with the fault named beside them. */
const CLIENTS_CAUSE = new Set([
  'abort-unknown',
  'abort-finished',
  'chunk-finished',
  'end-finished',
  'stale-handle',
]);

/** Compares what can be seen of an engine after an event with what must be so. It shares no code with the engine. */
export class EngineAudit {
  readonly #stage: Stage;
  readonly #engine: Engine;
  /** Handles that were seen unfinished. */
  readonly #lived = new Set<number>();
  /** Requests that have ended for their clients and not for the engine, and for how many rounds. */
  #ghosts = new Map<number, number>();
  /** Steps in a row in which nothing was scheduled though something could have been, by the auditor's own count. */
  #idleSteps = 0;
  /** The same without anything in quarantine, which only an operator can end. */
  #wedgedSteps = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#engine = stage.engine;
  }

  /** @throws Violation */
  check(sight: Sight, clients: ReadonlyMap<number, Client>): void {
    this.#containers(sight, clients);
    this.#blocks(sight);
    this.#gauges(sight);
    this.#anomalies(sight);
  }

  /** I1, I2, I9. */
  #containers(sight: Sight, clients: ReadonlyMap<number, Client>): void {
    const place = new Map<string, string>();
    for (const name of ['running', 'waiting', 'skipped'] as const) {
      for (const id of sight[name]) {
        const other = place.get(id);
        if (other !== undefined) throw new Violation('I1', `${id} stands in ${other} and in ${name}`);
        place.set(id, name);
      }
    }
    for (const seen of sight.requests) {
      const { id, handle, status, container, finished } = seen;
      const name = this.#stage.name(handle);
      const where = place.get(id);
      place.delete(id);
      this.#lived.add(handle);
      if (!clients.has(handle)) throw new Violation('I1', `${name} was submitted by nobody`);
      if (finished) throw new Violation('I1', `${name} is tracked and finished`);
      if (where === undefined || where !== container) {
        throw new Violation('I1', `${name} is in ${where ?? 'no container'}, says ${container}`);
      }
      if (!belongsTo(status).includes(where)) throw new Violation('I2', `${name} is ${status} in ${where}`);
      this.#counts(seen, name);
    }
    for (const [id, where] of place) throw new Violation('I1', `${id} stands in ${where} and is not tracked`);
    for (const { handle, finished } of [...sight.draining, ...sight.quarantined]) {
      if (!finished) throw new Violation('I6', `${this.#stage.name(handle)} drains and has not finished`);
    }
    const { maxNumSeqs = 0 } = this.#stage.setup.engine;
    if (sight.running.length > maxNumSeqs) throw new Violation('I9', `${sight.running.length} run`);
  }

  #counts({ numTokens, numComputed, placeholders, blocks }: Seen, name: string): void {
    const { numSpeculativeTokens = 0, blockSize = 16 } = this.#stage.setup.engine;
    const most = numTokens + placeholders + numSpeculativeTokens;
    if (numComputed < 0 || placeholders < 0 || numComputed > most) {
      throw new Violation('I18', `${name}: ${numComputed} of ${numTokens} + ${placeholders} tokens computed`);
    }
    if (blocks.length * blockSize < Math.min(numComputed, numTokens)) {
      throw new Violation('I4', `${name} has computed ${numComputed} tokens, and ${blocks.length} blocks`);
    }
  }

  /** I3, I12. */
  #blocks(sight: Sight): void {
    const { numBlocks, numRows = 0 } = this.#stage.setup.engine;
    const refs = new Int32Array(numBlocks);
    let rows = 0;
    for (const { blocks } of [...sight.requests, ...sight.draining]) if (blocks.length > 0) rows++;
    let dead = 0;
    for (const { blocks } of sight.quarantined) if (blocks.length > 0) dead++;
    for (const { blocks, kept } of [...sight.requests, ...sight.draining, ...sight.quarantined]) {
      for (const block of blocks) refs[block]++;
      for (const block of kept) refs[block]++;
    }
    for (const [block, pins] of sight.pins) refs[block] += pins;
    let used = 0;
    for (let block = 1; block < numBlocks; block++) {
      if (refs[block] > 0) used++;
      if (sight.refs[block] === refs[block]) continue;
      throw new Violation(
        'I3',
        `block ${block} has ${sight.refs[block]} references and ${refs[block]} holders`,
      );
    }
    if (refs[0] > 0) throw new Violation('I3', 'somebody holds the null block');
    for (const block of sight.free) {
      if (block === 0) throw new Violation('I3', 'the null block is free');
      if (refs[block] !== 0) throw new Violation('I3', `block ${block} is free twice, or free and held`);
      refs[block] = -1;
    }
    if (used + sight.free.length !== numBlocks - 1) {
      throw new Violation('I3', `${used} blocks held and ${sight.free.length} free of ${numBlocks - 1}`);
    }
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

  /** I13. */
  #gauges({ gauges, running, waiting, skipped, draining, quarantined, free, requests }: Sight): void {
    const right: Record<string, number> = {
      numRunning: running.length,
      numWaiting: waiting.length,
      numSkipped: skipped.length,
      numDraining: draining.length,
      numQuarantined: quarantined.length,
      freeBlocks: free.length,
      numLoading: requests.filter(({ status }) => status === 'WAITING_FOR_REMOTE_KVS').length,
    };
    for (const [name, value] of Object.entries(right)) {
      if (gauges[name] !== value) throw new Violation('I13', `${name} is ${gauges[name]}, counted ${value}`);
    }
  }

  /** I8: a world in which nobody does anything wrong counts nothing. */
  #anomalies({ anomalies }: Sight): void {
    for (const [reason, count] of Object.entries(anomalies)) {
      if (this.#stage.excused.has(reason) || CLIENTS_CAUSE.has(reason) || count === 0) continue;
      throw new Violation('I8', `${reason} was counted ${count} times, and nobody caused it`);
    }
  }

  /** I1: after a round. A request whose client was told of its end is gone when the next round is over. */
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
   * I10: after a step of the engine. A request that waits for nothing outside, and nothing outside that keeps blocks or rows
   * from it: then something has to be scheduled; and if nothing is for `stallSteps` steps, health has to say so.
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
    const { numBlocks } = this.#stage.setup.engine;
    const { free, rowsInUse, requests, draining, quarantined, hasWork, pins } = sight;
    const left = [...requests, ...draining, ...quarantined].map(({ handle }) => this.#stage.name(handle));
    if (left.length > 0) throw new Violation('I19', `${left} are left`);
    if (free.length !== numBlocks - 1)
      throw new Violation('I19', `${free.length} of ${numBlocks - 1} blocks are free`);
    if (rowsInUse > 0 || pins.size > 0)
      throw new Violation('I19', `${rowsInUse} rows, ${pins.size} pinned blocks`);
    if (hasWork || this.#engine.hasWork())
      throw new Violation('I10', 'nothing is left, and hasWork() says there is');
  }

  get lived(): ReadonlySet<number> {
    return this.#lived;
  }
}

function belongsTo(status: string): readonly string[] {
  if (status === 'RUNNING') return ['running'];
  if (status.startsWith('WAITING_FOR_')) return ['skipped'];
  return status === 'WAITING' || status === 'PREEMPTED' ? ['waiting', 'skipped'] : [];
}
