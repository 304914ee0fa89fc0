// The checker knows every field of the format and misses required ones.
import { describe, expect, it } from 'vitest';
import { unsupportedFeatures } from './features.js';
import { faultFixtureNames, fixtureNames, groupFixtureNames, readFixture } from './fixtures.js';
import { checkTrace, type Trace, type TraceEvent } from './trace.js';

/** A trace of one step that has every field of the format, also those of features that no fixture has. */
function everything(): Trace {
  const work = {
    prompt: [['x', [5, 6]]],
    n: 2,
    max_tokens: 4,
    arrival: 0.5,
    eos_at: -1,
    stop_at: 1,
    ignore_eos: 0,
  };
  const chunk = { id: 'r0', idx: 0, min_tokens: 0, ...work };
  const events = [
    {
      t: 'add',
      ...chunk,
      priority: 1,
      kv: { ext: 16, async: 1, oneshot: 1, defer: 2, delay_free: 1, delay_abort: 1 },
    },
    {
      t: 'add',
      ...chunk,
      priority: 1,
      kv: null,
      resumable: 1,
      salt: 'S',
      lora: ['L1', 1],
      so: { mod: 2, reject_at: 3 },
    },
    { t: 'chunk', ...chunk, was: 'RUNNING' },
    { t: 'end', id: 'r0', was: 'WAITING_FOR_STREAMING_REQ' },
    { t: 'grammar', id: 'r0' },
    { t: 'abort', id: 'r0', was: 'UNKNOWN', ok: 0 },
    { t: 'abort_many', ids: ['r0', 'r1'], ok: [] },
    { t: 'abort_all', ok: [] },
    { t: 'reset_prefix_cache', running: 1, ok: 1, preempted: ['r0'] },
    { t: 'pause', state: 'PAUSED_NEW' },
  ];
  const conn = [
    ['match', 'r0', 16, null, 0],
    ['alloc', 'r0', 16, 2],
    ['finished', 'r0', 'FINISHED_ABORTED', 1, 2],
  ];
  const state = {
    free: 1,
    usage: 0.5,
    fq: 1,
    cached: 0,
    run: [],
    wait: [],
    skip: ['r0'],
    unf: 1,
    reqs: [['r0', 1, 2, 3, 4]],
  };
  const trace = readFixture('t43_async_spec_preempt');
  trace.connector = {};
  trace.steps = [
    {
      step: 0,
      events: events as TraceEvent[],
      conn_pre: conn,
      sched: { ...(trace.steps[0].sched as object), conn, spec: [['r0', [-1]]], pend: 1, bitmask: ['r0'] },
      sample: [['r0', 5, 6]],
      mid: events as TraceEvent[],
      conn_mid: conn,
      upd: {
        for: 0,
        kv: { recv: ['r0'], send: [], invalid: [3] },
        out: [
          ['r0', [5], null],
          ['r0', [], 'error', 3, 1],
        ],
        conn,
        drafts: [['r0', [1, 2]]],
        ...state,
      },
      defer: { drafts: null, spec: [['r0', [1, -1]]], invalid: { r0: 1 }, bitmask: null },
    } as unknown as Trace['steps'][number],
  ];
  // Without shared parts, so that a change in one place is one change.
  return JSON.parse(JSON.stringify(trace)) as Trace;
}

/** The same with the additional fields of version 3. */
function groups(): Trace {
  const trace = everything();
  trace.version = 3;
  const [step] = trace.steps;
  const eagle = { block_size: 16, eagle: 1 } as const;
  Object.assign(trace.config, {
    kv_groups: [
      { type: 'full', ...eagle },
      { type: 'mla', ...eagle },
      { type: 'sink', ...eagle, sink_len: 32 },
      { type: 'sliding', ...eagle, sliding_window: 20 },
      { type: 'chunked', ...eagle, chunk: 40 },
      { type: 'mamba', ...eagle, mode: 'align', num_speculative_blocks: 2 },
    ],
    scheduler_block_size: 16,
    hash_block_size: 8,
    kv_events: 1,
  });
  Object.assign(step.sched as object, {
    new: [['r0', [[1, 2], []], 0]],
    resumed: [['r0', [[1], [0]], 0, 0]],
    running: [
      ['r0', [[1], [0]], 0, 0],
      ['r1', null, 0, 0],
    ],
    common: [0, 0],
    zero: [1],
    conn: [
      ['alloc', 'r0', 16, [1, 2]],
      ['finished', 'r0', 'FINISHED_ABORTED', 1, [1, 2], [1, 1]],
    ],
  });
  Object.assign(step.upd as object, {
    cached_by_group: [1, 2],
    rows: 5,
    kv_events: [
      ['stored', 0, 2, 32, 16, 0, 'full_attention', null, 'L1', [['L1', 'S1'], ['L1']]],
      ['stored', 3, 1, 32, 16, 1, 'sliding_window', 20, null, [null]],
      ['removed', 1, 1],
      ['cleared'],
    ],
  });
  Object.assign(trace.final, { cached_by_group: [1], rows: 0, cached_groups: [0, 1] });
  return JSON.parse(JSON.stringify(trace)) as Trace;
}

describe('checkTrace', () => {
  it.each([...fixtureNames, ...groupFixtureNames, ...faultFixtureNames])(
    'knows every field of %s',
    (name) => {
      expect(checkTrace(readFixture(name))).toEqual([]);
    },
  );

  it('knows every field of the format', () => {
    expect(checkTrace(everything())).toEqual([]);
    expect(checkTrace(groups())).toEqual([]);
  });

  it.each([0, 1, 2, 3, 4, 5])('finds an unknown field in the KV cache group %i', (i) => {
    const trace = groups();
    Object.assign(trace.config.kv_groups?.[i] as object, { novelty: 1 });
    const path = `config.kv_groups[${i}].novelty`;
    expect(checkTrace(trace)).toMatchObject([{ path, kind: 'unknown field' }]);
  });

  it.each([
    [
      'config.kv_groups[0]',
      (trace: Trace) => Object.assign(trace.config.kv_groups?.[0] as object, { type: '' }),
    ],
    [
      'steps[0].sched.new[0][1][1]',
      (trace: Trace) => trace.steps[0].sched?.new[0][1].splice(1, 1, 3 as never),
    ],
    [
      'steps[0].sched.common[1]',
      (trace: Trace) => Object.assign(trace.steps[0].sched as object, { common: [0, 0.5] }),
    ],
    ['steps[0].sched.conn[1][5]', (trace: Trace) => trace.steps[0].sched?.conn?.[1].splice(5, 1, 2 as never)],
    [
      'steps[0].upd.kv_events[1][7]',
      (trace: Trace) => trace.steps[0].upd?.kv_events?.[1].splice(7, 1, '' as never),
    ],
    ['steps[0].upd.kv_events[3]', (trace: Trace) => trace.steps[0].upd?.kv_events?.[3].push(1 as never)],
  ])('finds a malformed %s of a trace with KV cache groups', (path, spoil) => {
    const trace = groups();
    spoil(trace);
    expect(checkTrace(trace)).toMatchObject([{ path, kind: 'malformed' }]);
  });

  it.each([
    ['', (trace: Trace) => trace],
    ['config.', (trace: Trace) => trace.config],
    ['final.', (trace: Trace) => trace.final],
    ['steps[0].', (trace: Trace) => trace.steps[0]],
    ['steps[0].sched.', (trace: Trace) => trace.steps[0].sched],
    ['steps[0].upd.', (trace: Trace) => trace.steps[0].upd],
    ['steps[0].upd.kv.', (trace: Trace) => trace.steps[0].upd?.kv],
    ['steps[0].defer.', (trace: Trace) => trace.steps[0].defer],
    ['steps[0].events[0].', (trace: Trace) => trace.steps[0].events[0]],
    ['steps[0].events[0].kv.', (trace: Trace) => (trace.steps[0].events[0] as { kv: object }).kv],
    ['steps[0].events[1].so.', (trace: Trace) => (trace.steps[0].events[1] as { so: object }).so],
    ['steps[0].mid[8].', (trace: Trace) => (trace.steps[0].mid as object[])[8]],
  ])('finds an unknown field in "%s"', (prefix, pick) => {
    for (const name of ['novelty', 'constructor']) {
      const trace = everything();
      Object.defineProperty(pick(trace), name, { value: 1, enumerable: true });
      expect(checkTrace(trace)).toMatchObject([{ path: `${prefix}${name}`, kind: 'unknown field' }]);
    }
  });

  it.each([
    [
      'steps[0].sched.tokens[0]',
      (trace: Trace) => trace.steps[0].sched?.tokens.splice(0, 1, ['r0'] as never),
    ],
    [
      'steps[0].upd.out[0][2]',
      (trace: Trace) => trace.steps[0].upd?.out.splice(0, 1, ['r0', [], 'abort'] as never),
    ],
    ['steps[0].sample[0][1]', (trace: Trace) => trace.steps[0].sample?.splice(0, 1, ['r0', '5'] as never)],
    ['steps[0].events[5].ok', (trace: Trace) => Object.assign(trace.steps[0].events[5], { ok: 2 })],
    ['steps[0].events[0]', (trace: Trace) => Object.assign(trace.steps[0].events[0], { t: 'novelty' })],
    [
      'steps[0].sched.conn[0]',
      (trace: Trace) => trace.steps[0].sched?.conn?.splice(0, 1, ['novelty'] as never),
    ],
    ['config.policy', (trace: Trace) => Object.assign(trace.config, { policy: 'lifo' })],
    ['n_steps', (trace: Trace) => Object.assign(trace, { n_steps: undefined })],
  ])('finds a malformed %s', (path, spoil) => {
    const trace = everything();
    spoil(trace);
    expect(checkTrace(trace)).toMatchObject([{ path, kind: 'malformed' }]);
  });

  it('misses a required field', () => {
    const { final: _gone, ...trace } = everything();
    expect(checkTrace(trace)).toMatchObject([{ path: 'final', kind: 'malformed' }]);
  });
});

describe('unsupportedFeatures', () => {
  it.each(fixtureNames)('finds none in %s', (name) => {
    expect(unsupportedFeatures(readFixture(name))).toEqual([]);
  });

  it('names what one scheduler lacks', () => {
    expect(unsupportedFeatures(groups())).toEqual([]);
    expect(unsupportedFeatures(groups(), ['kv_groups'])).toEqual(['kv_groups']);
    expect(unsupportedFeatures(everything(), ['kv_groups'])).toEqual([]);
  });

  it('names each feature once', () => {
    const trace = everything();
    Object.assign(trace.config, { max_num_scheduled_tokens: 5, use_v2_model_runner: true });
    expect(unsupportedFeatures(trace)).toEqual(['max_num_scheduled_tokens', 'use_v2_model_runner']);
  });
});
