// Finds the fields of traces that are decisions, and puts other values there.
import { readFixture } from './fixtures.js';
import type { Trace } from './trace.js';

/** Leaves that a replay is driven by, or that only inform; everything else in a trace is a decision. */
const GIVEN = [
  /^(version|name|seed|vllm_commit|config|connector|workload|coverage|eos_id|stop_id)\b/,
  // A step without schedule() is the trace's wish; that update() follows from it is shown above.
  /^steps\[\]\.(step$|sched$|upd$|sample|upd\.(drafts|kv)\b|defer\.drafts)/,
  /^steps\[\]\.(events|mid)\[\]\.(t|id|idx|prompt|max_tokens|priority|arrival|eos_at|stop_at)\b/,
  /^steps\[\]\.(events|mid)\[\]\.(ignore_eos|min_tokens|kv|salt|running|state|resumable|lora|so)\b/,
];

/** A number, string or null in a trace. */
export interface Leaf {
  path: string;
  /** The path without indexes. */
  pattern: string;
  value: unknown;
}

function* leaves(value: unknown, path: string): Generator<Leaf> {
  if (typeof value === 'object' && value !== null) {
    for (const [key, child] of Object.entries(value)) {
      yield* leaves(child, Array.isArray(value) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`);
    }
  } else yield { path, pattern: path.replace(/\[\d+\]/g, '[]').replace(/\.r\d+$/, '.*'), value };
}

/** The part of a connector call or of an event of the cache that a leaf is, or is in: its kind, and the index. */
function callPart(trace: Trace, path: string): string | null {
  const [, row, part] = /^(.*\b(?:conn(?:_pre|_mid)?|kv_events)\[\d+\])\[(\d+)\]/.exec(path) ?? [];
  return row === undefined ? null : `${(valueAt(trace, row) as string[])[0]} ${part}`;
}

/** Whether places of an event of the cache are not stored, so that no scheduler tells where those begin that are. */
function hasHoles(trace: Trace, path: string): boolean {
  const row = valueAt(trace, path.slice(0, path.lastIndexOf('['))) as number[];
  return row[3] !== row[2] * row[4];
}

/** Whether blocks of an event of the cache have one token: a token more would be a place that is not stored. */
function hasShortBlocks(trace: Trace, path: string): boolean {
  return (valueAt(trace, path.slice(0, path.lastIndexOf('['))) as number[])[4] === 1;
}

/**
 * Whether an event of the cache stands in its list twice: then the scheduler's report is about the
 * other one.
 */
function isTwin(trace: Trace, path: string): boolean {
  const [, list, index] = /^(.*\.kv_events)\[(\d+)\]/.exec(path) ?? [];
  if (list === undefined) return false;
  const rows = (valueAt(trace, list) as unknown[]).map((row) => JSON.stringify(row));
  return rows.filter((row) => row === rows[Number(index)]).length > 1;
}

/** Whether a leaf is the name of a request that is to be aborted, which is given. */
function isAborted(trace: Trace, path: string): boolean {
  const [, call] = /^(.*)\.ids\[\d+\]$/.exec(path) ?? [];
  return call !== undefined && (valueAt(trace, call) as { t: string }).t === 'abort_many';
}

/** Another value that may stand in the same place. */
function otherThan({ path, pattern, value }: Leaf, part: string | null): unknown {
  if (part === 'match 4' || part === 'finished 3' || part === 'stored 5') return 1 - (value as number);
  if (part === 'stored 7' && value === null) return 5;
  if (part === 'stored 9' && value === null) return ['L9'];
  if (part === 'match 3' && value === null) return 0;
  if (/\.(ok|out\[\]\[\])$/.test(pattern) && (value === 0 || value === 1)) return 1 - value;
  if (typeof value === 'number') return pattern.endsWith('usage') ? value + 0.25 : value + 1;
  // The stop reason of a row that only has transfer params.
  if (value === null && path.endsWith('[3]')) return 3;
  if (value === null && pattern.endsWith('.bitmask')) return ['r0'];
  if (value === null) return pattern.includes('.running[]') || pattern.endsWith('.zero') ? [1] : 'stop';
  return value === 'stop' ? 'length' : value === 'length' ? 'stop' : `${value}x`;
}

function assign(trace: Trace, path: string, value: unknown): void {
  const cut = Math.max(path.lastIndexOf('.'), path.lastIndexOf('['));
  const parent = cut < 0 ? trace : valueAt(trace, path.slice(0, cut));
  (parent as Record<string, unknown>)[path.slice(cut + 1).replace(']', '')] = value;
}

function valueAt(trace: Trace, path: string): unknown {
  const keys = path.replace(/\]/g, '').split(/[.[]/);
  return keys.reduce((node, key) => (node as Record<string, unknown>)[key], trace as unknown);
}

/**
 * One leaf for each kind of place and type of value that is a decision, with the fixture that
 * contains it.
 */
export function decisions(names: readonly string[]): [name: string, leaf: Leaf][] {
  const found = new Map<string, [string, Leaf]>();
  for (const name of names) {
    const trace = readFixture(name);
    for (const leaf of leaves(trace, '')) {
      if (GIVEN.some((given) => given.test(leaf.pattern))) continue;
      const part = callPart(trace, leaf.path);
      // Another kind of call would be a malformed one; a call in the place of another is tried above.
      if (part?.endsWith(' 0')) continue;
      if (part === 'stored 5' && hasHoles(trace, leaf.path)) continue;
      if (part === 'stored 3' && hasShortBlocks(trace, leaf.path)) continue;
      if (isTwin(trace, leaf.path) || isAborted(trace, leaf.path)) continue;
      // The elements of a row differ in meaning.
      const place = /[^\]]\[\]\[\]$/.test(leaf.pattern) ? leaf.path.slice(leaf.path.lastIndexOf('[')) : '';
      found.set(`${leaf.pattern} ${part ?? place} ${leaf.value === null}`, [name, leaf]);
    }
  }
  return [...found.values()];
}

/** The fixture with another value in the place of a leaf. */
export function falsified(name: string, leaf: Leaf): Trace {
  const trace = readFixture(name);
  assign(trace, leaf.path, otherThan(leaf, callPart(trace, leaf.path)));
  return trace;
}
