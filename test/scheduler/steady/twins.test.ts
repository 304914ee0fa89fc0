// Random lives with and without a steady decode, which must be equal.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/index.js';
import { share } from '../../support/share.js';
import { type ConnectedTwinOptions, ConnectedTwins } from './connected-twins.js';
import { type TwinOptions, Twins } from './twins.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(10, 300, 3000));
const EVENTS = 400;

/** Where there is room for long answers, and little happens but decodes. */
const ROOMY = { numBlocks: 200, maxNumSeqs: 8, maxNumBatchedTokens: 64, maxModelLen: 120 };
const WINDOW: Partial<SchedulerOptions> = { kvGroups: [{ type: 'full' }, { type: 'sliding', window: 6 }] };
const STATES: Partial<SchedulerOptions> = {
  kvGroups: [{ type: 'full' }, { type: 'mamba' }],
  enablePrefixCaching: true,
};
const KINDS: Record<string, TwinOptions> = {
  'under pressure': {},
  'that are never read': { readEvery: EVENTS },
  'that are read often': { readEvery: 10 },
  'with sessions, grammars and adapters': { converses: true },
  'with room for all': { options: ROOMY },
  'with room for all, and sessions': { options: ROOMY, converses: true },
  'with few seats': { options: { ...ROOMY, maxNumSeqs: 2 } },
  'with fewer tokens than seats': { options: { ...ROOMY, maxNumBatchedTokens: 5 } },
  'with steps in flight': { options: { pipelineDepth: 2 } },
  'with steps in flight, and room for all': { options: { ...ROOMY, pipelineDepth: 2 } },
  'with steps in flight, and sessions': { options: { ...ROOMY, pipelineDepth: 2 }, converses: true },
  'with many steps in flight': { options: { ...ROOMY, pipelineDepth: 3 } },
  'with a log': { options: ROOMY, logs: true },
  'with KV events': { options: ROOMY, tells: true, converses: true },
  'with a log and steps in flight': { options: { ...ROOMY, pipelineDepth: 2 }, logs: true },
  'with KV events and steps in flight': { options: { ...ROOMY, pipelineDepth: 3 }, tells: true },
  'by the rules of August': { options: { like: '017e9f444' } },
  'with a window': { options: { ...ROOMY, ...WINDOW } },
  'with a window, under pressure': { options: { ...WINDOW, numBlocks: 40 } },
  'with a window, sessions and KV events': { options: { ...ROOMY, ...WINDOW }, converses: true, tells: true },
  'with a window, a log and steps in flight': {
    options: { ...ROOMY, ...WINDOW, pipelineDepth: 2 },
    logs: true,
  },
  'with a window and many steps in flight, by the rules of August': {
    options: { ...ROOMY, ...WINDOW, pipelineDepth: 3, like: '017e9f444' },
  },
  'with chunks': { options: { ...ROOMY, kvGroups: [{ type: 'full' }, { type: 'chunked', chunk: 7 }] } },
  'with states': { options: { ...ROOMY, ...STATES } },
  'with states, under pressure': { options: { ...STATES, numBlocks: 40 } },
  'with states and steps in flight': { options: { ...ROOMY, ...STATES, pipelineDepth: 2 } },
  'with all states': {
    options: { ...ROOMY, ...STATES, kvGroups: [{ type: 'full' }, { type: 'mamba', mode: 'all' }] },
  },
};

// Pinned by: each condition of `Steady` and `Repeat`.
describe.each(Object.entries(KINDS))('F63 twins %s, one without a steady decode', (_, options) => {
  const depth = options.options?.pipelineDepth ?? 1;
  it(`say the same in ${SEEDS} lives`, () => {
    let numSteady = 0;
    let numRepeated = 0;
    for (let seed = 0; seed < SEEDS; seed++) {
      const twins = new Twins(seed, options);
      expect([seed, twins.run(EVENTS)]).toEqual([seed, null]);
      numSteady += twins.numSteady;
      numRepeated += twins.numRepeated;
    }
    // Without these the twins would prove nothing.
    expect(numSteady).toBeGreaterThan(10 * SEEDS);
    // With steps in flight two results in a row, as these lives often have them, end each steady decode.
    expect(numRepeated).toBeGreaterThan(depth === 1 ? SEEDS : SEEDS / 4);
  });
});

// Lives with rare events in steps that could be repeated otherwise.
it.each([
  // A request that ends outside the plan is reported once.
  ['with room for all, and sessions', 49],
  // A transfer uses a block that leaves its window.
  ['with a window, under pressure', 21],
  // A step in flight reads a block that leaves its window.
  ['with a window and many steps in flight, by the rules of August', 32],
])('F63 twins %s say the same in life %i', (kind, seed) => {
  expect(new Twins(seed, KINDS[kind]).run(EVENTS)).toBe(null);
});

const CONNECTED: [string, ConnectedTwinOptions][] = [
  ['at depth 1', {}],
  ['at depth 2', { pipelineDepth: 2 }],
  ['at depth 3', { pipelineDepth: 3 }],
  ['a log and KV events', { isHeard: true }],
  ['a log and KV events at depth 2', { pipelineDepth: 2, isHeard: true }],
  ['a window', { kvGroups: WINDOW.kvGroups }],
  ['a window at depth 2', { kvGroups: WINDOW.kvGroups, pipelineDepth: 2, isHeard: true }],
];
describe.each(CONNECTED)('F63 twins with a connector, %s, one without a steady decode', (_, options) => {
  it(`say and ask the same in ${SEEDS} lives`, () => {
    let numRepeated = 0;
    for (let seed = 0; seed < SEEDS; seed++) {
      const twins = new ConnectedTwins(seed, options);
      expect([seed, twins.run(EVENTS)]).toEqual([seed, null]);
      numRepeated += twins.numRepeated;
    }
    expect(numRepeated).toBeGreaterThan(options.pipelineDepth === undefined ? SEEDS : SEEDS / 4);
  });
});
