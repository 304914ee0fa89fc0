// The complete format of a trace, versions 1 to 3.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import {
  anything,
  boolean,
  choice,
  flag,
  headed,
  integer,
  list,
  literal,
  nullable,
  number,
  object,
  type Problem,
  record,
  type Shape,
  type TypeOf,
  tagged,
  text,
  tuple,
  tuples,
} from './shape.js';

const size = { block_size: integer };
const eagle = { eagle: flag };
/** A KV cache group; `eagle`: it holds layers of the drafter. */
const kvGroup = tagged('type', {
  full: object({ type: literal('full'), ...size }, eagle),
  mla: object({ type: literal('mla'), ...size }, eagle),
  sink: object({ type: literal('sink'), ...size, sink_len: integer }, eagle),
  sliding: object({ type: literal('sliding'), ...size, sliding_window: integer }, eagle),
  chunked: object({ type: literal('chunked'), ...size, chunk: integer }, eagle),
  mamba: object(
    {
      type: literal('mamba'),
      ...size,
      mode: literal('none', 'all', 'align'),
      num_speculative_blocks: integer,
    },
    eagle,
  ),
});

/**
 * The complete trace format, versions 1 to 3: the inputs and decisions of a run of vLLM's
 * scheduler. A version 1 file is a version 2 file without the newer fields, so those are optional
 * here. In version 3, which knows KV cache groups, a list of block ids becomes a list of lists, one
 * for each group.
 */
const config = object(
  {
    block_size: integer,
    /** The null block 0 included. */
    num_gpu_blocks: integer,
    max_num_seqs: integer,
    max_num_batched_tokens: integer,
    max_num_scheduled_tokens: nullable(integer),
    max_model_len: integer,
    enable_prefix_caching: boolean,
    policy: literal('fcfs', 'priority'),
    enable_chunked_prefill: boolean,
    long_prefill_token_threshold: integer,
    scheduler_reserve_full_isl: boolean,
    async_scheduling: boolean,
    log_stats: boolean,
    use_v2_model_runner: boolean,
    kv_load_failure_policy: literal('recompute', 'fail'),
  },
  {
    num_speculative_tokens: integer,
    spec_method: nullable(literal('ngram', 'eagle', 'draft_model')),
    max_loras: nullable(integer),
    /** Most batches in flight; null = 2 with async scheduling, else 1. */
    pipeline_depth: nullable(literal(1, 2, 3)),
    /** Share of the blocks that an admission leaves free. */
    watermark: number,
    /** The role of the connector; it matters with async scheduling alone. */
    kv_role: literal('kv_both', 'kv_producer', 'kv_consumer'),
    requires_kv_delivery: nullable(boolean),
    /** Tokens that each scheduled request costs on top of its own; null = by the method. */
    draft_slots: nullable(integer),
    kv_groups: list(kvGroup),
    /** Least common multiple of the block sizes. */
    scheduler_block_size: integer,
    /** Tokens that the hash of a request's block list covers. */
    hash_block_size: integer,
    /** Multiple of `scheduler_block_size` at which windows and states are kept; 0 = at the prompt's end alone, null = everywhere. */
    retention: nullable(integer),
    /** KV cache events are recorded. */
    kv_events: flag,
  },
);

const id = text;
const ids = list(id);
const tokens = list(integer);
const blocks = list(integer);
/** Block ids of a request; in version 3 those of each group. */
const rows = choice<number[] | number[][]>('block ids', (value) =>
  Array.isArray(value) && value.some(Array.isArray) ? list(blocks) : blocks,
);
const count = choice<number | number[]>('an integer or one for each group', (value) =>
  Array.isArray(value) ? list(integer) : integer,
);
const tokenRows = list(tuple(id, tokens));

const segment = tuples({
  /** [seed, start, length]: a slice of the endless text of a seed. */
  s: tuple(literal('s'), integer, integer, integer),
  /** [idx, length]: the first output tokens of another request. */
  o: tuple(literal('o'), integer, integer),
  /** Literal tokens. */
  x: tuple(literal('x'), tokens),
});

/** A request's connector parameters; a missing one is 0. */
const kvParameters = object(
  {},
  { ext: integer, async: flag, oneshot: flag, defer: integer, delay_free: flag, delay_abort: flag },
);

/** The common fields of an add and of a later chunk of a session. */
const work = {
  id,
  idx: integer,
  prompt: list(segment),
  n: integer,
  max_tokens: integer,
  arrival: number,
  eos_at: integer,
  stop_at: integer,
  ignore_eos: flag,
  min_tokens: integer,
};

const add = object(
  { t: literal('add'), ...work, priority: integer, kv: nullable(kvParameters) },
  {
    resumable: flag,
    salt: text,
    lora: tuple(text, integer),
    so: object({ mod: integer, reject_at: integer }),
  },
);

const chunk = object({ t: literal('chunk'), was: text, ...work });

const event = tagged('t', {
  add,
  abort: object({ t: literal('abort'), id, was: text, ok: flag }),
  abort_many: object({ t: literal('abort_many'), ids, ok: ids }),
  abort_all: object({ t: literal('abort_all'), ok: ids }),
  reset_prefix_cache: object({ t: literal('reset_prefix_cache'), running: flag, ok: flag, preempted: ids }),
  pause: object({ t: literal('pause'), state: literal('UNPAUSED', 'PAUSED_NEW', 'PAUSED_ALL') }),
  chunk,
  end: object({ t: literal('end'), id, was: text }),
  grammar: object({ t: literal('grammar'), id }, { fail: flag }),
});

const finished = tuple(literal('finished'), id, text, flag, integer);
/** Lengths of the rows, and how many of their places are not null. */
const finishedByGroup = tuple(literal('finished'), id, text, flag, blocks, blocks);
const connectorCall = tuples({
  match: tuple(literal('match'), id, integer, nullable(integer), flag),
  alloc: tuple(literal('alloc'), id, integer, count),
  finished: choice<TypeOf<typeof finished> | TypeOf<typeof finishedByGroup>>('a finished call', (value) =>
    Array.isArray(value) && Array.isArray(value[4]) ? finishedByGroup : finished,
  ),
});

const kvEvent = tuples({
  /** Group, hashes, tokens, block size, has a parent, kind, window, adapter, extra keys of each hash. */
  stored: tuple(
    literal('stored'),
    integer,
    integer,
    integer,
    integer,
    flag,
    text,
    nullable(integer),
    nullable(text),
    nullable(list(nullable(list(text)))),
  ),
  /** Group, hashes. */
  removed: tuple(literal('removed'), integer, integer),
  cleared: tuple(literal('cleared')),
});

const sched = object(
  {
    new: list(tuple(id, rows, integer)),
    resumed: list(tuple(id, rows, integer, integer)),
    running: list(tuple(id, nullable(rows), integer, integer)),
    tokens: list(tuple(id, integer)),
    total: integer,
    preempted: ids,
    finished: ids,
    all_tokens: record(integer),
    common: count,
    free: integer,
    usage: number,
  },
  {
    conn: list(connectorCall),
    spec: tokenRows,
    pend: flag,
    bitmask: nullable(ids),
    /** Blocks to be zeroed; only where a group is of type mamba. */
    zero: nullable(blocks),
  },
);

const state = {
  free: integer,
  usage: number,
  fq: integer,
  cached: integer,
  run: ids,
  wait: ids,
  skip: ids,
};
const newerState = {
  unf: integer,
  reqs: list(tuple(id, integer, integer, integer, integer)),
  /** Blocks that carry a hash, by group. */
  cached_by_group: list(integer),
  /** Checksum of all rows of all requests. */
  rows: integer,
};

const reason = nullable(literal('stop', 'length', 'error'));
const plainRow = tuple(id, tokens, reason);
/** With stop_reason and has_kv_transfer_params, if either is set. */
const fullRow = tuple(id, tokens, reason, nullable(integer), flag);
const outputRow = choice<TypeOf<typeof plainRow> | TypeOf<typeof fullRow>>('an output row', (value) => {
  const long = Array.isArray(value) && value.length > 3;
  return (long ? fullRow : plainRow) as Shape<TypeOf<typeof plainRow> | TypeOf<typeof fullRow>>;
});

/** The reports of the connector's workers. */
const kvReport = object({ recv: ids, send: ids }, { invalid: blocks });

const upd = object(
  { for: integer, out: list(outputRow), ...state },
  {
    kv: nullable(kvReport),
    conn: list(connectorCall),
    drafts: nullable(tokenRows),
    kv_events: list(kvEvent),
    ...newerState,
  },
);

const defer = object({
  drafts: nullable(tokenRows),
  spec: tokenRows,
  invalid: record(integer),
  bitmask: nullable(ids),
});

const step = object(
  { step: integer, events: list(event), sched: nullable(sched), upd: nullable(upd) },
  {
    conn_pre: list(connectorCall),
    sample: list(headed(id, integer)),
    mid: list(event),
    conn_mid: list(connectorCall),
    defer,
  },
);

const trace = object(
  {
    version: literal(1, 2, 3),
    name: text,
    seed: integer,
    vllm_commit: text,
    config,
    /** Parameters of the driver that made the trace; of interest is only whether a connector is configured. */
    connector: nullable(anything),
    workload: anything,
    eos_id: integer,
    stop_id: integer,
    coverage: anything,
    n_requests: integer,
    n_steps: integer,
    final: object(
      { ...state, free_queue: blocks, cached_ids: blocks, requests_left: ids },
      /** The group of each of `cached_ids`. */
      { ...newerState, cached_groups: list(integer) },
    ),
    steps: list(step),
  },
  {
    /** Of a trace that was made here: `like`, and the rules that override it. */
    rules: anything,
  },
);

export type Trace = TypeOf<typeof trace>;
export type TraceConfig = TypeOf<typeof config>;
export type TraceKvGroup = TypeOf<typeof kvGroup>;
export type TraceKvEvent = TypeOf<typeof kvEvent>;
export type TraceStep = TypeOf<typeof step>;
export type TraceEvent = TypeOf<typeof event>;
export type AddEvent = TypeOf<typeof add>;
export type ChunkEvent = TypeOf<typeof chunk>;
export type Segment = TypeOf<typeof segment>;
export type Sched = TypeOf<typeof sched>;
export type Update = TypeOf<typeof upd>;
export type ConnectorCall = TypeOf<typeof connectorCall>;
export type KvParameters = TypeOf<typeof kvParameters>;
export type KvReport = TypeOf<typeof kvReport>;
export type OutputRow = TypeOf<typeof outputRow>;

/** Everything about a parsed document that is not a trace as this runner knows it. */
export function checkTrace(document: unknown): Problem[] {
  const problems: Problem[] = [];
  trace.check(document, '', problems);
  return problems;
}

/**
 * Parses a trace file, plain or gzipped. Throws if it is no JSON; checkTrace() decides whether it
 * is a trace.
 */
export function readTrace(path: string): Trace {
  try {
    const bytes = readFileSync(path);
    return JSON.parse((path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')) as Trace;
  } catch (cause) {
    throw new Error(`cannot read the trace ${path}: ${String(cause)}`, { cause });
  }
}
