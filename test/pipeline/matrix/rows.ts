import { Random } from '../../../src/base/random.js';
import type { Subject } from './subject.js';

/** The results of the requests of one row. */
export interface RowResult {
  readonly row: string;
  readonly total: number;
  readonly completed: number;
  readonly aborted: number;
  /** Requests that made no progress until their clients gave up. */
  readonly hung: number;
  /** Of these, requests of which not a single chunk had come. */
  readonly hungAtZero: number;
  /** Requests that ended with an error, or with the wrong chunks. */
  readonly wrong: number;
  /** Why the engine died; the requests that were open then, and those after them, are in no count above. */
  readonly died: string | null;
  /** Places that stay lost when everything has ended. */
  readonly lostPlaces: number;
  /** The counts of the events that guards found during this row. */
  readonly guards: Readonly<Record<string, number>>;
  /** Whether every request ended as it should. */
  readonly complete: boolean;
  readonly ticks: number;
}

/** A row of the matrix. */
export interface Row {
  readonly name: string;
  readonly total: number;
  readonly concurrency: number;
  /** Share of the requests that are aborted at a random moment; `after-two`: each, when its second chunk has come. */
  readonly aborts: number | 'after-two';
  readonly seed: number;
  /** The requests are those of the row before, and so are the engines. */
  readonly again?: boolean;
}

/** The rows of vllm-omni #3774. */
export const ROWS: readonly Row[] = [
  { name: '16 sequential aborts', total: 16, concurrency: 1, aborts: 'after-two', seed: 1 },
  { name: '120 mixed', total: 120, concurrency: 8, aborts: 0.3, seed: 17 },
  { name: '160 under abort pressure', total: 160, concurrency: 8, aborts: 0.5, seed: 42 },
  { name: 'the same 160 again', total: 160, concurrency: 8, aborts: 0.5, seed: 42, again: true },
  { name: '32 without aborts', total: 32, concurrency: 8, aborts: 0, seed: 5 },
];

/**
 * Ticks without progress after which a client gives up, for every eight requests that are open at a time. The longest
 * request takes about a hundred ticks when it is alone.
 */
const PATIENCE = 600;
/** Ticks after the last request, in which everything that is still on its way arrives. */
const DRAIN = 40;
/**
 * A client that goes away does so after a random number of chunks below this. If this is 0, it goes
 * at a random tick within the first ones, for every eight requests that are open at a time.
 */
const ABORT_CHUNKS = 8;
const ABORT_TICKS = 40;

interface Open {
  readonly id: string;
  /** The tick at which its client goes away; Infinity = it stays. */
  readonly abortAt: number;
  readonly abortAfter: number;
  chunks: number;
  progressAt: number;
}

/** Runs one row. @param check called every so many ticks, and at the end */
export async function runRow(subject: Subject, row: Row, checkEvery = 64): Promise<RowResult> {
  const { name, total, concurrency, aborts, seed, again = false } = row;
  const random = new Random(seed);
  const before = { ...subject.guards };
  const counts = { completed: 0, aborted: 0, hung: 0, hungAtZero: 0, wrong: 0 };
  const open: Open[] = [];
  const crowd = Math.max(1, concurrency / 8);
  let next = 0;
  let tick = 0;
  while (subject.died === null && (next < total || open.length > 0)) {
    while (next < total && open.length < concurrency) {
      const id = `${again && subject.reusesIds !== true ? 'again' : 'r'}${seed}-${next}`;
      subject.submit(id, Math.floor(random.next() * 2 ** 30));
      const isAborted = aborts !== 'after-two' && random.next() < aborts;
      const after = aborts === 'after-two' ? 2 : random.below(ABORT_CHUNKS);
      const at = tick + random.below(ABORT_TICKS * crowd);
      open.push({
        id,
        abortAt: isAborted && after === 0 ? at : Number.POSITIVE_INFINITY,
        abortAfter: (isAborted && after > 0) || aborts === 'after-two' ? after : Number.POSITIVE_INFINITY,
        chunks: 0,
        progressAt: tick,
      });
      next++;
    }
    await subject.advance();
    tick++;
    if (tick % checkEvery === 0) subject.verify?.();
    for (const request of [...open]) {
      if (attend(subject, request, tick, PATIENCE * crowd, counts)) open.splice(open.indexOf(request), 1);
    }
  }
  for (let i = 0; i < DRAIN && subject.died === null; i++) await subject.advance();
  if (subject.died === null) subject.verify?.();
  const complete =
    subject.died === null && counts.completed + counts.aborted === total && counts.hung + counts.wrong === 0;
  const { died, lostPlaces } = subject;
  return {
    row: name,
    total,
    ...counts,
    died,
    lostPlaces,
    guards: added(before, subject.guards),
    complete,
    ticks: tick,
  };
}

type Counts = { completed: number; aborted: number; hung: number; hungAtZero: number; wrong: number };

/** A client looks after its request. @returns whether the request is over for it */
function attend(subject: Subject, request: Open, tick: number, patience: number, counts: Counts): boolean {
  const { chunks, outcome } = subject.read(request.id);
  if (outcome !== null) {
    counts[outcome === 'error' ? 'wrong' : outcome]++;
    return true;
  }
  if (chunks > request.chunks) {
    request.chunks = chunks;
    request.progressAt = tick;
  }
  if (tick >= request.abortAt || chunks >= request.abortAfter) {
    subject.abort(request.id);
    counts.aborted++;
    return true;
  }
  if (tick - request.progressAt < patience) return false;
  subject.abort(request.id);
  counts.hung++;
  if (chunks === 0) counts.hungAtZero++;
  return true;
}

function added(
  before: Record<string, number>,
  after: Readonly<Record<string, number>>,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(after)
      .map(([guard, count]) => [guard, count - (before[guard] ?? 0)] as const)
      .filter(([, count]) => count > 0),
  );
}

/**
 * Runs all rows. Each row has a subject of its own, except rows that continue with the subject of
 * the row before.
 */
export async function runRows(make: () => Subject, rows: readonly Row[] = ROWS): Promise<RowResult[]> {
  const results: RowResult[] = [];
  let subject: Subject | null = null;
  for (const row of rows) {
    if (row.again !== true || subject === null) {
      subject?.dispose?.();
      subject = make();
    }
    results.push(await runRow(subject, row));
  }
  subject?.dispose?.();
  return results;
}
