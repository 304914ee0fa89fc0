import { describe, expect, it } from 'vitest';
import { TraceConnector } from '../connector.js';
import { readFixture } from '../fixtures.js';
import { observeOutputs, observePlan, observeState } from '../observe.js';
import { optionsOf } from '../options.js';
import { makeScheduler } from '../scheduler-under-test.js';
import type { MakeSubject } from '../subject.js';
import type { KvParameters } from '../trace.js';
import { ReferenceScheduler } from './scheduler.js';

const BLOCK_SIZE = 4;
const shared = [1, 2, 3, 4, 5, 6, 7, 8];

/** A load that fails, and behind its blocks two others, which random workloads bring about too seldom. */
function run(make: MakeSubject, policy: 'fail' | 'recompute', ownTokens: number) {
  const trace = readFixture('t20_conn_load_failures');
  Object.assign(trace.config, {
    block_size: BLOCK_SIZE,
    num_gpu_blocks: 40,
    kv_load_failure_policy: policy,
  });
  const connector = new TraceConnector();
  const subject = make(optionsOf(trace, connector, () => 0));
  const add = (id: string, own: number[], parameters: KvParameters) => {
    connector.expect(id, parameters);
    const prompt = Int32Array.from([...shared, ...own]);
    const stops = { maxTokens: 5, minTokens: 0, eosTokenId: 2, ignoreEos: true, stopTokenIds: [] };
    subject.add({ id, prompt, ...stops, priority: 0, arrivalTime: 0 });
  };
  const loads = { ext: 16, async: 1 } as const;
  add('first', [9], { ext: 8 });
  for (const [i, id] of ['second', 'third'].entries()) {
    add(
      id,
      Array.from({ length: ownTokens }, (_, k) => 100 * (i + 1) + k),
      loads,
    );
  }
  const plan = subject.schedule();
  const begun = connector.drainCalls();
  const [, blocks] = observePlan(plan, subject.core).new[0];
  const output = connector.outputOf({ recv: ['second', 'third'], send: [], invalid: [blocks[0] as number] });
  subject.update(plan, { tokens: Int32Array.of(7), counts: Int32Array.of(1) }, output);
  const failed = { calls: connector.drainCalls(), state: observeState(subject) };
  const after = observePlan(subject.schedule(), subject.core);
  const again = { calls: connector.drainCalls(), plan: after, state: observeState(subject) };
  subject.verify();
  subject.dispose();
  return { begun, failed, again };
}

describe('loads behind a load that failed', () => {
  it.each([
    ['recompute', 12],
    ['recompute', 8],
    ['fail', 12],
  ] as const)(
    'are treated by the scheduler as by the reference: %s, %i tokens of their own',
    (policy, own) => {
      const expected = run((options) => new ReferenceScheduler(options), policy, own);
      expect(run(makeScheduler, policy, own)).toEqual(expected);
    },
  );

  it('fail with it; but of those that are computed again only the first one also computes what it lost', () => {
    const { begun, failed, again } = run(makeScheduler, 'recompute', 8);
    expect(begun.filter(([kind]) => kind === 'match')).toEqual([
      ['match', 'first', 0, 8, 0],
      ['match', 'second', 8, 8, 1],
      ['match', 'third', 8, 8, 1],
    ]);
    expect(failed.state.reqs).toEqual([['third', 16, 16, 0, 0]]);
    expect(again.plan.tokens).toEqual([
      ['first', 9],
      ['third', 1],
    ]);
  });
});

/**
 * A prompt of one token fills its block, and is loaded again after the block was published, over what others read. In the step that begins the second load
 * `reader` is admitted on the block; then the load fails.
 */
function loadAgain(make: MakeSubject, policy: 'fail' | 'recompute', steps: 1 | 2) {
  const trace = readFixture('t20_conn_load_failures');
  const config = { block_size: 1, num_gpu_blocks: 40, kv_load_failure_policy: policy } as const;
  Object.assign(trace.config, { ...config, async_scheduling: steps === 2 });
  const connector = new TraceConnector();
  const subject = make(optionsOf(trace, connector, () => 0));
  const add = (id: string, tokens: number[], parameters: KvParameters | null) => {
    connector.expect(id, parameters);
    const stops = { maxTokens: 5, minTokens: 0, eosTokenId: 2, ignoreEos: true, stopTokenIds: [] };
    subject.add({ id, prompt: Int32Array.from(tokens), ...stops, priority: 0, arrivalTime: 0 });
  };
  /** A step, and a token for each of its requests. */
  const step = () => {
    const plan = subject.schedule();
    const seen = observePlan(plan, subject.core);
    const counts = new Int32Array(seen.tokens.length).fill(1);
    return { plan, seen, result: { tokens: counts.map(() => 70), counts } };
  };
  const apply = ({ plan, result }: ReturnType<typeof step>, recv: string[], invalid?: number[]) => {
    const output = connector.outputOf({ recv, send: [], ...(invalid && { invalid }) });
    const rows = observeOutputs(subject.update(plan, result, output));
    return { rows, calls: connector.drainCalls(), state: observeState(subject) };
  };
  add('one', [7], { ext: 1, async: 1 });
  apply(step(), ['one']);
  add('reader', [7, 8, 9], null);
  const again = step();
  const begun = connector.drainCalls();
  const [, [block]] = again.seen.new[0];
  const next = steps === 2 ? step() : null;
  const failed = apply(again, [], [block as number]);
  if (next !== null) apply(next, []);
  const after = apply(step(), ['one']);
  subject.verify();
  subject.dispose();
  return { begun, failed, after };
}

describe('a load that fails over a block that others read', () => {
  // Under `recompute` with a step in flight vLLM keeps what that step samples from the block.
  it.each([
    ['recompute', 1],
    ['fail', 1],
    ['fail', 2],
  ] as const)('takes its readers along, as in the reference: %s, %i steps in flight', (policy, steps) => {
    const expected = loadAgain((options) => new ReferenceScheduler(options), policy, steps);
    const seen = loadAgain(makeScheduler, policy, steps);
    expect(seen).toEqual(expected);
    expect(seen.begun.filter(([kind]) => kind === 'match').at(-1)).toEqual(['match', 'reader', 1, 0, 0]);
    expect(seen.failed.rows.filter(([id]) => id === 'reader')).toEqual(
      policy === 'fail' ? [['reader', [], 'error']] : [],
    );
  });
});
