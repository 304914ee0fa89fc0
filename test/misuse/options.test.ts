// Options of the constructor, one by one and combined.
import { describe, expect, it } from 'vitest';
import { Scheduler, type SchedulerOptions } from '../../src/index.js';
import { DEVIATIONS } from '../../src/scheduler/options/deviations.js';
import { SINGLE_RULES, type SingleRules } from '../../src/scheduler/options/rules.js';
import { carryRules } from '../../src/scheduler/options/single-rules.js';
import {
  booby,
  detach,
  foreignRealm,
  hostile,
  MINE,
  NO_BOOLEANS,
  NO_COUNTS,
  NO_STRINGS,
  raise,
  throwingProxy,
} from './bad-values.js';
import { codeOf, errorOf, expectReadable } from './bench.js';
import { describeValue } from './misuse.js';

const GOOD: SchedulerOptions = { numBlocks: 33, maxModelLen: 64, maxNumBatchedTokens: 64, maxNumSeqs: 4 };
const make = (options: unknown) => new Scheduler(options as SchedulerOptions);

const NO_TIMEOUTS = [
  ...NO_COUNTS.filter((value) => typeof value !== 'number'),
  ...[Number.NaN, Infinity, -Infinity, -1, -0.5, 1e15, 2 ** 53],
];

const NO_OPTIONS: Record<keyof SchedulerOptions, unknown[]> = {
  numBlocks: [...NO_COUNTS, undefined, 0, 1, -0, 2 ** 20 + 1, 2 ** 31 - 1],
  blockSize: [...NO_COUNTS, 0, -0, 2 ** 16 + 1, 2 ** 31 - 1],
  kvGroups: [
    'full',
    1,
    {},
    [],
    Array.from({ length: 9 }, () => ({ type: 'full' })),
    [{}],
    [{ type: 'none' }],
  ],
  hashBlockSize: [],
  maxNumSeqs: [...NO_COUNTS, 0, -0, 4097, 2 ** 31 - 1],
  maxNumBatchedTokens: [...NO_COUNTS, 0, -0, 2 ** 30 + 1, 2 ** 31 - 1],
  maxModelLen: [...NO_COUNTS, 0, -0, 1, 2 ** 30 + 1, 2 ** 31 - 1],
  enablePrefixCaching: NO_BOOLEANS,
  policy: [...NO_STRINGS, '', 'FCFS', 'toString', ['fcfs']],
  enableChunkedPrefill: NO_BOOLEANS,
  longPrefillTokenThreshold: [...NO_COUNTS, 2 ** 30 + 1, 2 ** 31 - 1],
  reserveFullIsl: NO_BOOLEANS,
  maxLoras: [...NO_COUNTS, 4097, 2 ** 31 - 1],
  pipelineDepth: [...NO_COUNTS, 0, -0, 4, 2 ** 31 - 1],
  numSpeculativeTokens: [...NO_COUNTS, 65, 2 ** 31 - 1],
  speculativeMethod: [...NO_STRINGS, '', 'NGRAM', 'medusa', ['ngram']],
  numRanks: [...NO_COUNTS, 0, -0, 65_537, 2 ** 31 - 1],
  numRows: [...NO_COUNTS, 0, -0, 3, 4097, 2 ** 31 - 1],
  hashSeed: [
    ...[
      true,
      '',
      '7',
      Symbol('s'),
      {},
      [],
      () => 1,
      Number.NaN,
      Infinity,
      -Infinity,
      -1,
      0.5,
      2 ** 53,
      1e308,
    ],
    ...[
      -1n,
      2n ** 128n,
      new Uint8Array(0),
      new Uint8Array(15),
      new Uint8Array(17),
      detach(new Uint8Array(16)),
    ],
    ...[new Int8Array(16), new Uint32Array(16), new DataView(new ArrayBuffer(16)), new ArrayBuffer(16)],
    ...[Object.create(Uint8Array.prototype), new Proxy(new Uint8Array(16), {})],
    new Uint8Array(new SharedArrayBuffer(16)),
  ],
  like: [...NO_STRINGS.filter((value) => value !== null), '', '28BE48FA', 'v0.27', ['28be48fa']],
  watermark: [...NO_COUNTS.filter((value) => typeof value !== 'number'), Number.NaN, Infinity, -0.1, 1, 2],
  draftSlots: [...NO_COUNTS, 65, 2 ** 31 - 1],
  deviations: [
    ...[null, 0, 1, '', 'x', DEVIATIONS[0], 1n, Symbol('s'), () => [], {}, { [DEVIATIONS[0]]: false }],
    ...[[true], ['unknown'], ['toString'], [DEVIATIONS[0], ''], new Array(1), [[DEVIATIONS[0]]]],
  ],
  deadlines: [
    ...[null, true, 0, 1, '', 'x', 1n, Symbol('s'), () => ({}), [], [1], { unknown: 1 }, { toString: 1 }],
    ...NO_TIMEOUTS.flatMap((timeout) => [
      { streamingInput: timeout },
      { grammar: timeout },
      { load: timeout },
      { reclaim: timeout },
    ]),
  ],
  connector: [true, 0, 1, '', 'x', 1n, Symbol('s'), {}, [], () => ({})],
  borrower: [true, 0, 1, '', 'x', 1n, Symbol('s'), {}, [], () => ({}), { parked: [] }],
  loadFailurePolicy: [...NO_STRINGS, '', 'FAIL', 'retry', ['fail']],
  reclaim: [...NO_STRINGS, '', 'never', ['on-report']],
  now: [null, 0, 1, true, 'x', 1n, Symbol('s'), {}, [], new Date(0)],
  kvEvents: [
    true,
    0,
    1,
    '',
    'x',
    1n,
    Symbol('s'),
    {},
    [],
    () => ({}),
    { onEvents: 1 },
    { onEvents() {}, report: 'full' },
  ],
  reportBlocks: NO_BOOLEANS,
  steadyDecode: NO_BOOLEANS,
  strict: NO_BOOLEANS,
  backend: [...NO_STRINGS, '', 'CUDA', 'gpu', 'device', 'toString', ['host']],
  authority: [...NO_STRINGS, '', 'Device', 'Host', ['host']],
  device: [
    ...NO_STRINGS,
    '',
    'cuda:',
    'cuda:-1',
    'cuda:01',
    'cuda:1000',
    'cuda:1e1',
    ' cuda',
    'cuda:0\n',
    ['cpu'],
  ],
  launchThread: NO_BOOLEANS,
  stream: [0, 1, -1, 2 ** 53, '', '1n', true, {}, [], Symbol('s'), () => 1n, Object(1n), -1n, 2n ** 64n],
  log: [0, 1, true, false, '', 'x', 1n, Symbol('s'), {}, [], () => 1, { write: 1 }, { write: undefined }],
};

/** Bad values of the rules that are no options, but are in the headers of logs. */
const NO_RULES: Record<keyof SingleRules, unknown[]> = {
  freeOrder: [...NO_STRINGS, '', 'head', ['tail']],
  admissionLookahead: NO_BOOLEANS,
  loadReservation: NO_BOOLEANS,
  padDecode: NO_BOOLEANS,
  fenceFrees: NO_BOOLEANS,
  sessionSeats: [...NO_STRINGS, '', 'idle', ['running']],
  preemptedOutputs: [...NO_STRINGS, '', 'drop', ['deliver']],
  preemptedIds: [...NO_STRINGS, '', 'all', ['step']],
  stateLoads: NO_BOOLEANS,
  promptTails: NO_BOOLEANS,
  windowBasis: [...NO_STRINGS, '', 'computed', ['processed']],
  retention: [null, true, {}, '', 'none', -1, 0.5, 2 ** 31, ['all']],
  grammarFailures: [...NO_STRINGS, '', 'never', ['schedule']],
};

describe('the constructor', () => {
  it.each(Object.keys(NO_OPTIONS) as (keyof SchedulerOptions)[])('refuses every bad %s', (name) => {
    const failures: string[] = [];
    for (const value of NO_OPTIONS[name]) {
      try {
        const error = errorOf(() => make({ ...GOOD, [name]: value }).dispose());
        expect(codeOf(() => raise(error))).toBe('ERR_BLOCKSTEP_BAD_ARG');
        expectReadable(error, name === 'deviations' ? 700 : 400);
        expect((error as Error).message).toContain(name);
      } catch (error) {
        failures.push(`${describeValue(value)}: ${(error as Error).message.split('\n')[0]}`);
      }
    }
    expect(failures).toEqual([]);
  });

  it.each(SINGLE_RULES)(
    'refuses the rule %s as an option, and every bad value where a log names it',
    (name) => {
      expect(() => make({ ...GOOD, [name]: true })).toThrow(
        `known names only, got "${name}": it is a rule of vLLM that no option sets alone; like chooses the rules of a version`,
      );
      for (const value of NO_RULES[name]) {
        const error = errorOf(() => make(carryRules({ ...GOOD, [name]: value as never })).dispose());
        expect(
          codeOf(() => raise(error)),
          describeValue(value),
        ).toBe('ERR_BLOCKSTEP_BAD_ARG');
        expectReadable(error);
        expect((error as Error).message).toContain(name);
      }
    },
  );

  it('refuses what is no options object', () => {
    for (const value of [undefined, null, 0, 1, 'x', true, 1n, Symbol('s'), () => GOOD, [], [GOOD], {}]) {
      expect(
        codeOf(() => make(value)),
        describeValue(value),
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(() => Reflect.apply(Scheduler as never, undefined, [GOOD])).toThrow(TypeError);
  });

  it('passes on what getters and proxies throw', () => {
    for (const name of Object.keys(NO_OPTIONS)) {
      const options = Object.defineProperty({ ...GOOD }, name, { get: hostile });
      expect(
        errorOf(() => make(options)),
        name,
      ).toBe(MINE);
    }
    expect(errorOf(() => make(throwingProxy(GOOD)))).toBe(MINE);
    expect(errorOf(() => make({ ...GOOD, deviations: throwingProxy([]) }))).toBe(MINE);
    expect(errorOf(() => make({ ...GOOD, deadlines: throwingProxy({}) }))).toBe(MINE);
  });

  it('keeps the deviations that it checked', () => {
    let reads = 0;
    const given = Object.defineProperty([''], 0, { get: () => (reads++ === 0 ? DEVIATIONS[0] : 'x') });
    const { config } = make({ ...GOOD, deviations: given });
    expect(config.deviations[DEVIATIONS[0]]).toBe(false);
  });

  it('refuses what only the combination makes bad, naming an option', () => {
    const whole = { ...GOOD, enableChunkedPrefill: false, maxNumBatchedTokens: 63 };
    expect(codeOf(() => make(whole))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const error = errorOf(() => make({ ...GOOD, maxModelLen: 2 ** 30, blockSize: 1 }));
    expectReadable(error);
    expect((error as Error).message).toMatch(/maxModelLen|blockSize/);
  });

  it('takes the limits of every option, and a seed of every kind', () => {
    const least = {
      numBlocks: 2,
      blockSize: 1,
      maxNumSeqs: 1,
      maxNumBatchedTokens: 1,
      maxModelLen: 2,
      numRows: 1,
    };
    make({ ...least, longPrefillTokenThreshold: -0, numSpeculativeTokens: -0 }).dispose();
    const most = {
      numBlocks: 2 ** 20,
      blockSize: 2 ** 16,
      maxNumSeqs: 4096,
      maxNumBatchedTokens: 2 ** 30,
      numRows: 4096,
    };
    make({ ...most, maxModelLen: 2 ** 16, pipelineDepth: 3, numSpeculativeTokens: 64 }).dispose();
    const bytes = [
      new Uint8Array(16),
      Buffer.alloc(16),
      foreignRealm('new Uint8Array(16)'),
      booby(new Uint8Array(16)),
    ];
    for (const hashSeed of [-0, 2 ** 53 - 1, 0n, 2n ** 128n - 1n, ...bytes]) {
      make({ ...GOOD, hashSeed }).dispose();
    }
  });

  it('does not keep the caller’s seed or options', () => {
    const hashSeed = new Uint8Array(16);
    const options = { ...GOOD, hashSeed };
    const { config } = make(options);
    hashSeed[0] = 1;
    options.numBlocks = 2;
    expect([config.hashSeed[0], config.numBlocks]).toEqual([0, 33]);
    expect(() => Object.assign(config, { numBlocks: 2 })).toThrow(TypeError);
  });
});
