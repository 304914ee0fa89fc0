/** One line of a result: one figure, and for times the distribution behind it. */
export interface Row {
  /** The group of the benchmark, as in --only. */
  group: Group;
  /** Unique within the group and stable between versions: `compare` pairs rows by it. */
  name: string;
  unit: 'us' | 'ms' | 'bytes' | 'collections' | 'ratio' | 'tokens/s';
  /** The figure itself; for a time its p50. */
  value: number;
  latency?: Latency;
  /** How many running requests one operation serves, if it serves several. */
  requests?: number;
}

export const GROUPS = [
  'calibration',
  'decode',
  'mixed',
  'lives',
  'operations',
  'kv-groups',
  'tables',
  'reference',
  'transfers',
  'heap',
  'engine',
  'cuda',
] as const;
export type Group = (typeof GROUPS)[number];

/** Distribution of a time, in microseconds. */
export interface Latency {
  min: number;
  p1: number;
  p50: number;
  p90: number;
  p99: number;
  samples: number;
}

/** A row of times. */
export function timeRow(group: Group, name: string, latency: Latency, requests?: number): Row {
  return {
    group,
    name,
    unit: 'us',
    value: latency.p50,
    latency,
    ...(requests === undefined ? {} : { requests }),
  };
}

/** The row that says how fast the machine is: other times are set in relation to it. */
export const BARE_LOOP = 'bare loop over 256';
