// Checks of visible state that need no history; the engine's audit makes them too.
import { type Seen, type Sight, Violation } from './facts.js';

/**
 * Conditions that every sight must meet, whatever led to it. Both auditors begin with these checks.
 */

/**
 * The container of each tracked request: exactly one, and the one that its status and the request
 * itself name (I1, I2).
 */
export class Places {
  readonly #places = new Map<string, string>();

  constructor(sight: Sight) {
    for (const name of ['running', 'waiting', 'skipped'] as const) {
      for (const id of sight[name]) {
        const other = this.#places.get(id);
        if (other !== undefined) throw new Violation('I1', `${id} stands in ${other} and in ${name}`);
        this.#places.set(id, name);
      }
    }
  }

  /** Checks a tracked request, and removes it from its place. */
  check({ id, status, container, finished }: Seen, name: string): void {
    const where = this.#places.get(id);
    this.#places.delete(id);
    if (finished) throw new Violation('I1', `${name} is tracked and finished`);
    if (where === undefined || where !== container) {
      throw new Violation('I1', `${name} is in ${where ?? 'no container'}, says ${container}`);
    }
    if (!belongsTo(status).includes(where)) throw new Violation('I2', `${name} is ${status} in ${where}`);
  }

  /** When all tracked requests were taken, nobody may be left. */
  end(): void {
    for (const [id, where] of this.#places)
      throw new Violation('I1', `${id} stands in ${where} and is not tracked`);
  }
}

function belongsTo(status: string): readonly string[] {
  if (status === 'RUNNING') return ['running'];
  if (status.startsWith('WAITING_FOR_')) return ['skipped'];
  return status === 'WAITING' || status === 'PREEMPTED' ? ['waiting', 'skipped'] : [];
}

/** A request has computed no more tokens than it can have, and has blocks for them (I18, I4). */
export function checkTokens(
  { numTokens, numComputed, placeholders, rows }: Seen,
  name: string,
  maxDrafts: number,
  blockSizes: readonly number[],
): void {
  const most = numTokens + placeholders + maxDrafts;
  if (numComputed < 0 || placeholders < 0 || numComputed > most) {
    throw new Violation('I18', `${name}: ${numComputed} of ${numTokens} + ${placeholders} tokens computed`);
  }
  for (const [g, size] of blockSizes.entries()) {
    if (rows[g].length * size >= Math.min(numComputed, numTokens)) continue;
    throw new Violation('I4', `${name} has computed ${numComputed} tokens, and ${rows[g].length} blocks`);
  }
}

/**
 * Every block has as many references as holders and pins, and is free exactly if it has none (I3).
 * @param sinks blocks that are held for good, from 1 on
 */
export function checkBlocks(sight: Sight, numBlocks: number, sinks = 0): void {
  const refs = new Int32Array(numBlocks);
  refs.fill(1, 1, 1 + sinks);
  for (const { blocks, kept } of [...sight.requests, ...sight.draining, ...sight.quarantined]) {
    for (const block of blocks) refs[block]++;
    for (const block of kept) refs[block]++;
  }
  for (const [block, pins] of sight.pins) refs[block] += pins;
  for (const block of sight.fenced) refs[block]++;
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
}

/** The gauges agree with the counts (I13). */
export function checkGauges(sight: Sight): void {
  const { gauges, running, waiting, skipped, draining, quarantined, free, requests } = sight;
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
  // Absent in sights that a test makes up.
  const { promptTokens = 0, promptTokensCached = 0, promptTokensLoaded = 0, externalHits = 0 } = gauges;
  const parts = [
    promptTokensCached,
    promptTokensLoaded,
    promptTokens - promptTokensCached - promptTokensLoaded,
  ];
  if (Math.min(...parts) < 0 || promptTokensLoaded > externalHits)
    throw new Violation('I13', `of ${promptTokens} tokens, loaded of ${externalHits}: ${parts.join(', ')}`);
}
