// Collects the KV cache events of a scheduler, in the form of a trace.
import { HASH_BYTES } from '../../src/scheduler/events/kv-event.js';
import type { SubjectKvEvent, SubjectKvGroup } from './subject.js';
import type { TraceKvEvent } from './trace.js';

type Stored = Extract<SubjectKvEvent, { type: 'stored' }>;
type StoredRow = Extract<TraceKvEvent, ['stored', ...unknown[]]>;

/** vLLM's names of the types of groups. */
const KINDS: Readonly<Record<SubjectKvGroup['type'], string>> = {
  full: 'full_attention',
  mla: 'mla_attention',
  sink: 'sink_full_attention',
  sliding: 'sliding_window',
  chunked: 'chunked_local_attention',
  mamba: 'mamba',
};

/**
 * Collects the KV cache events that a scheduler reports, in the form of a trace. vLLM reports a
 * stretch of places in one event even where some of them are not stored, and then nobody knows
 * which. A scheduler reports each run of places in an event of its own. So one recorded event is
 * compared with as many runs as have its hashes together. vLLM also reports the part of a block in
 * which a prompt ends, which no lookup finds; a scheduler does not report it.
 */
export class TraceKvEvents {
  #runs: Stored[] = [];
  /** Hashes that were removed, by group. */
  #removed = new Map<number, number>();
  #cleared = 0;
  readonly #blockSizes: readonly number[];

  /** @param blockSizes of the groups */
  constructor(blockSizes: readonly number[] = []) {
    this.#blockSizes = blockSizes;
  }

  onEvents(events: readonly SubjectKvEvent[]): void {
    for (const event of events) {
      if (event.type === 'stored') this.#runs.push(event);
      else if (event.type === 'cleared') this.#cleared++;
      else this.#remove(event.group, event.hashes.length / HASH_BYTES);
    }
  }

  /**
   * The events since the last time, in the order of the recorded events. Null: there is nothing
   * like the recorded event. Events that were not recorded come at the end.
   */
  drain(recorded: readonly TraceKvEvent[]): (TraceKvEvent | null)[] {
    const seen: (TraceKvEvent | null)[] = recorded.map((row) => {
      // vLLM tells of places none of which is stored.
      if (row[0] === 'stored' && (row[2] === 0 || this.#isTail(row))) return row;
      if (row[0] === 'stored') return this.#removeRuns(row);
      if (row[0] === 'removed') return this.#removeRemoved(row[1], row[2]);
      return this.#cleared-- > 0 ? ['cleared'] : null;
    });
    seen.push(...this.#runs.map((run) => rowOf([run])));
    for (const [group, count] of this.#removed) if (count > 0) seen.push(['removed', group, count]);
    for (; this.#cleared > 0; this.#cleared--) seen.push(['cleared']);
    this.#runs = [];
    this.#removed.clear();
    this.#cleared = 0;
    return seen;
  }

  /** Whether a recorded event is of one hash inside a block. */
  #isTail([, group, hashes, tokens, blockSize, , kind]: StoredRow): boolean {
    const isFull = kind === KINDS.full || kind === KINDS.mla;
    return isFull && hashes === 1 && tokens === blockSize && blockSize < this.#blockSizes[group];
  }

  #remove(group: number, count: number): void {
    this.#removed.set(group, (this.#removed.get(group) ?? 0) + count);
  }

  #removeRemoved(group: number, most: number): TraceKvEvent | null {
    const count = Math.min(this.#removed.get(group) ?? 0, most);
    this.#remove(group, -count);
    return count > 0 ? ['removed', group, count] : null;
  }

  /** The runs that a recorded event is about, as one event. */
  #removeRuns(recorded: StoredRow): StoredRow | null {
    const first =
      this.#runs.find((run) => isLike(run, recorded)) ??
      this.#runs.find(({ group }) => group === recorded[1]);
    if (!first) return null;
    const runs = [this.#removeRun(first)];
    const holes = recorded[3] - recorded[2] * recorded[4];
    let missing = recorded[2] - numHashes(first);
    while (holes > 0 && missing > 0) {
      const next = this.#runs.find((run) => run.parentHash !== null && isLike(run, recorded));
      if (!next || numHashes(next) > missing) break;
      runs.push(this.#removeRun(next));
      missing -= numHashes(next);
    }
    const row = rowOf(runs);
    // Of the places that are not stored a scheduler tells no tokens, and before the first of them it names a parent.
    if (holes > 0 && holes % recorded[4] === 0 && missing === 0 && row[3] === row[2] * row[4]) {
      row[3] = recorded[3];
      row[5] = recorded[5] === 0 ? 0 : row[5];
    }
    return row;
  }

  #removeRun(run: Stored): Stored {
    this.#runs.splice(this.#runs.indexOf(run), 1);
    return run;
  }
}

function numHashes({ hashes }: Stored): number {
  return hashes.length / HASH_BYTES;
}

/** Whether a run may belong to a recorded event. */
function isLike(run: Stored, recorded: StoredRow): boolean {
  const [, group, , , blockSize, , kind, window, adapter] = rowOf([run]);
  return [group, blockSize, kind, window, adapter].every(
    (value, i) => value === recorded[[1, 4, 6, 7, 8][i] as 1 | 4 | 6 | 7 | 8],
  );
}

/** Runs of one stretch of places as an event of vLLM's. */
function rowOf(runs: readonly Stored[]): StoredRow {
  const [{ group, parentHash, blockSize, kind, window, adapter }] = runs;
  const sum = (of: (run: Stored) => number) => runs.reduce((total, run) => total + of(run), 0);
  const parent = parentHash === null ? 0 : 1;
  return [
    'stored',
    group,
    sum(numHashes),
    sum(({ tokenIds }) => tokenIds.length),
    blockSize,
    parent,
    KINDS[kind],
    window,
    adapter,
    runs.flatMap(extraKeys),
  ];
}

/**
 * The extra keys of each place's hash: the adapter, and at the first place of a request its salt.
 */
function extraKeys(run: Stored): (string[] | null)[] {
  return Array.from({ length: numHashes(run) }, (_, i) => {
    const salt = i === 0 && run.parentHash === null ? run.cacheSalt : null;
    const keys = [run.adapter, salt].filter((key) => key !== null);
    return keys.length > 0 ? keys : null;
  });
}
