// The auditor finds each planted violation, and imports nothing from outside.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Auditor } from './audit/auditor.js';
import type { Asked, EntryFacts, PlanFacts, RowFacts, Rules, Seen, Sight } from './audit/facts.js';
import { plainly } from './shared/asked.js';

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), 'audit');

const RULES: Rules = {
  ...{ numBlocks: 9, blockSize: 4, maxNumSeqs: 2, maxNumBatchedTokens: 16, maxModelLen: 24, numRows: 4 },
  ...{ pipelineDepth: 1, maxDrafts: 0, reporters: [[0, 1], [0]], loadFailurePolicy: 'fail' },
  ...{ inputDeadline: 0, grammarDeadline: 0, queueDeadline: 0, maxAdapters: 0 },
  ...{ loadDeadline: 100, reclaimDeadline: 0, cancels: false },
  ...{ drafts: 0, stepsKept: 1 },
  groups: [{ type: 'full', size: 4, window: 0, chunk: 0, mode: null, sinks: 0, spare: 0 }],
  version: {
    ...{ unhashedFirst: false, lookahead: 0, admissionLookahead: false, spare: 0, loadReservation: false },
    ...{ draftSlots: 0, padDecode: false, padsNobody: false, fencesFrees: false, seatsIdle: false },
    ...{ preemptedOutputs: 'deliver', sinceLast: false, failsWithUpdate: false, wholeStates: true },
  },
};

const TOKEN = 77;

const ask = (id: string, length = 5): Asked => plainly(id, new Int32Array(length), 3);

function see(handle: number, id: string, more: Partial<Seen> = {}): Seen {
  const seen = {
    ...{ handle, id, status: 'RUNNING', container: 'running', finished: false },
    ...{ numTokens: 5, numComputed: 5, placeholders: 0, stopReason: null, blocks: [1, 2], kept: [], ...more },
  };
  return { rows: [seen.blocks], ...seen };
}

/** The view of a scheduler that has these requests, with everything else correct. */
function show(requests: Seen[], draining: Seen[] = [], more: Partial<Sight> = {}): Sight {
  const refs = Array.from({ length: RULES.numBlocks }, () => 0);
  for (const { blocks } of [...requests, ...draining]) for (const block of blocks) refs[block]++;
  const free = refs.flatMap((count, block) => (block > 0 && count === 0 ? [block] : []));
  const ids = (name: string) => requests.filter(({ container }) => container === name).map(({ id }) => id);
  const [running, waiting, skipped] = ['running', 'waiting', 'skipped'].map(ids);
  return {
    ...{
      now: 0,
      running,
      waiting,
      skipped,
      requests,
      draining,
      quarantined: [],
      free,
      refs,
      published: new Set<number>(),
      fenced: [],
      pins: new Map(),
    },
    rowsInUse: [...requests, ...draining].filter(({ blocks }) => blocks.length > 0).length,
    hasWork: true,
    connectorWorks: false,
    anomalies: {},
    gauges: {
      ...{ numRunning: running.length, numWaiting: waiting.length, numSkipped: skipped.length },
      ...{ numDraining: draining.length, numQuarantined: 0, freeBlocks: free.length },
      numLoading: requests.filter(({ status }) => status === 'WAITING_FOR_REMOTE_KVS').length,
    },
    ...more,
  };
}

function counting(seen: Seen, counts: Sight['gauges']): Sight {
  const sight = show([seen]);
  return { ...sight, gauges: { ...sight.gauges, ...counts } };
}

function entry(handle: number, more: Partial<EntryFacts> = {}): EntryFacts {
  const counts = {
    scheduled: 5,
    computed: 0,
    cached: 0,
    drafts: 0,
    samples: 1,
    numBlocks: 2,
    numNewBlocks: 2,
  };
  return { handle, kind: 'new', taken: [{ from: 0, until: 2, found: 0 }], ...counts, ...more };
}

function plan(step: number, entries: EntryFacts[], more: Partial<PlanFacts> = {}): PlanFacts {
  const totalTokens = entries.reduce((sum, { scheduled }) => sum + scheduled, 0);
  return {
    step,
    totalTokens,
    entries,
    preempted: [],
    finished: [],
    finishedHandles: [],
    zeroed: [],
    ...more,
  };
}

const RIGHT = [{ tokens: [TOKEN], failed: false, wrongAt: -1 }];

/** An auditor that knows one running request; the test decides all further facts. */
function running(): Auditor {
  const auditor = new Auditor(RULES, () => TOKEN);
  auditor.began(0, false);
  auditor.clients.added(ask('a'), 100);
  auditor.saw(show([see(100, 'a', { status: 'WAITING', container: 'waiting', blocks: [], numComputed: 0 })]));
  auditor.began(1, true, true);
  auditor.steps.planned(plan(0, [entry(100)]));
  auditor.saw(show([see(100, 'a')]));
  return auditor;
}

/** An auditor of a scheduler that cancels: its request was aborted while its blocks are sent. */
function aborted(): Auditor {
  const auditor = new Auditor({ ...RULES, cancels: true }, () => TOKEN);
  auditor.clients.added(ask('a'), 100);
  const targets = auditor.clients.aborting(['a']);
  auditor.transfers.finished(100, 'abort', [1]);
  auditor.clients.aborted(targets, ['a']);
  return auditor;
}

function update(auditor: Auditor, rows: RowFacts[], results = RIGHT): void {
  auditor.began(2, true);
  auditor.steps.updated(0, results, rows);
}

describe('the auditor', () => {
  it('imports nothing but itself, so that no mistake of the scheduler can be its own', () => {
    const files = readdirSync(FOLDER);
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) {
      const text = readFileSync(join(FOLDER, file), 'utf8');
      const imports = [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, path]) => path);
      for (const path of imports) expect(path, file).toMatch(/^\.\/[a-z-]+\.js$/);
      expect(text, file).not.toMatch(/require\(/);
    }
  });

  it('has nothing against what is right', () => {
    const auditor = running();
    update(auditor, [{ handle: 100, tokens: [TOKEN], reason: null, continues: false }]);
    auditor.saw(show([see(100, 'a', { numTokens: 6 })]));
  });

  it('has nothing against a window that lets go of all blocks of a request that waits and does not fit', () => {
    const window = { ...RULES.groups[0], type: 'sliding', window: 1 } as const;
    // Nobody knows whether there is room for one that awaits its outputs.
    const version = { ...RULES.version, preemptedOutputs: 'await' } as const;
    const auditor = new Auditor({ ...RULES, groups: [window], version }, () => TOKEN);
    auditor.clients.added(ask('a'), 100);
    auditor.steps.planned(plan(0, [entry(100)]));
    const waits = { status: 'WAITING', container: 'waiting' };
    auditor.saw(show([see(100, 'a', waits)]));
    auditor.clients.held(100, 'store', 'x', true);
    auditor.began(2, true, true);
    auditor.steps.planned(plan(1, []));
    // The hold keeps the blocks from everybody else.
    const pool = { refs: [0, 1, 1, 0, 0, 0, 0, 0, 0], free: [3, 4, 5, 6, 7, 8] };
    const gone = see(100, 'a', { ...waits, rows: [[0, 0]], blocks: [], kept: [1, 2] });
    const gauges = { ...show([gone]).gauges, freeBlocks: 6 };
    auditor.saw(show([gone], [], { ...pool, gauges, rowsInUse: 1 }));
  });

  it.each<[string, string, (seen: Seen) => Sight]>([
    ['I1', 'a request in no container', (seen) => show([seen], [], { running: [] })],
    ['I1', 'a request in two', (seen) => show([seen], [], { waiting: ['a'] })],
    ['I1', 'a stranger in running', (seen) => show([seen], [], { running: ['a', 'z'] })],
    ['I1', 'a request that finished and is tracked', (seen) => show([{ ...seen, finished: true }])],
    ['I1', 'a request that went without an end', () => show([])],
    ['I2', 'a waiting request that runs', (seen) => show([{ ...seen, status: 'WAITING' }])],
    ['I3', 'a block that is free and held', (seen) => show([seen], [], { free: [1, 3, 4, 5, 6, 7, 8] })],
    ['I3', 'a block that is free twice', (seen) => show([seen], [], { free: [3, 3, 4, 5, 6, 7, 8] })],
    ['I3', 'a block that is nowhere', (seen) => show([seen], [], { free: [3, 4, 5, 6, 7] })],
    ['I3', 'the null block in use', (seen) => show([{ ...seen, blocks: [0, 1] }])],
    ['I3', 'a reference too many', (seen) => show([seen], [], { refs: [0, 2, 1, 0, 0, 0, 0, 0, 0] })],
    ['I4', 'more computed than there are blocks', (seen) => show([{ ...seen, rows: [[1]], blocks: [1] }])],
    ['I4', 'blocks kept for nothing', (seen) => show([{ ...seen, kept: [3] }])],
    ['I6', 'a live request that drains', (seen) => show([seen], [see(100, 'a', { blocks: [3] })])],
    ['I8', 'an anomaly that nobody caused', (seen) => show([seen], [], { anomalies: { 'stale-handle': 1 } })],
    ['I13', 'a gauge that is off', (seen) => show([seen], [], { gauges: { numRunning: 2 } })],
    [
      'I13',
      'more tokens loaded than came',
      (seen) => counting(seen, { promptTokens: 9, promptTokensLoaded: 1 }),
    ],
    ['I13', 'more tokens cached than there are', (seen) => counting(seen, { promptTokensCached: 1 })],
    ['I18', 'a token that nobody sampled', (seen) => show([{ ...seen, numTokens: 6 }])],
    ['I18', 'more computed than there is', (seen) => show([{ ...seen, numComputed: 6 }])],
  ])('%s: sees %s', (invariant, _, broken) => {
    const auditor = running();
    const sight = broken(see(100, 'a'));
    expect(() => {
      auditor.unannounced(sight);
      auditor.saw(sight);
    }).toThrow(new RegExp(`^${invariant}:`));
  });

  it.each<[string, string, RowFacts[], typeof RIGHT?]>([
    ['I14', 'a row that is missing', []],
    ['I14', 'two rows', [0, 1].map(() => ({ handle: 100, tokens: [TOKEN], reason: null, continues: false }))],
    ['I14', 'an end that is none', [{ handle: 100, tokens: [TOKEN], reason: 'length', continues: false }]],
    [
      'I14',
      'another token than was sampled',
      [{ handle: 100, tokens: [TOKEN + 1], reason: null, continues: false }],
    ],
    [
      'I18',
      'a wrong token',
      [{ handle: 100, tokens: [TOKEN + 1], reason: null, continues: false }],
      [{ tokens: [TOKEN + 1], failed: false, wrongAt: -1 }],
    ],
    [
      'I11',
      'a token computed from what was never written',
      [{ handle: 100, tokens: [TOKEN], reason: null, continues: false }],
      [{ tokens: [TOKEN], failed: false, wrongAt: 3 }],
    ],
    ['I20', 'a row for nobody', [{ handle: 5, tokens: [], reason: 'abort', continues: false }]],
  ])('%s: sees %s', (invariant, _, rows, results) => {
    expect(() => update(running(), rows, results)).toThrow(new RegExp(`^${invariant}:`));
  });

  it.each<[string, string, (auditor: Auditor) => void]>([
    ['I18', 'a step that is left out', (a) => a.steps.planned(plan(2, []))],
    [
      'I18',
      'more tokens than there are',
      (a) => a.steps.planned(plan(1, [entry(100, { kind: 'running', scheduled: 9 })])),
    ],
    [
      'I18',
      'a sample too many',
      (a) => a.steps.planned(plan(1, [entry(100, { kind: 'running', scheduled: 1 })])),
    ],
    [
      'I18',
      'a request twice',
      (a) =>
        a.steps.planned(
          plan(1, [
            entry(100, { kind: 'running', samples: 0, scheduled: 4 }),
            entry(100, { kind: 'running' }),
          ]),
        ),
    ],
    ['I18', 'more tokens than a step may have', (a) => a.steps.planned(plan(1, [], { totalTokens: 17 }))],
    ['I12', 'an end that was none', (a) => a.steps.planned(plan(1, [], { finished: ['a'] }))],
    ['I20', 'a handle given out twice', (a) => a.clients.added(ask('b'), 100)],
    ['I20', 'an id in use that is let in', (a) => a.clients.added(ask('a'), 101)],
    ['I20', 'a refusal without a reason', (a) => a.clients.added(ask('b'), 'ERR_BLOCKSTEP_UNFIT')],
    ['I20', 'a prompt let in that never fits', (a) => a.clients.added(ask('b', 24), 101)],
    ['I14', 'an abort that ends nobody', (a) => a.clients.aborted(a.clients.aborting(['a']), [])],
    ['I8', 'a completion of nothing', (a) => a.clients.completed(100, 'store', 'x', true)],
    ['I8', 'tokens that nobody offered', (a) => a.transfers.allocated(100, [[1, 2]], 4, 1)],
    [
      'I5',
      'a request finished twice',
      (a) => {
        a.transfers.finished(100, 'abort', null);
        a.transfers.finished(100, 'abort', null);
      },
    ],
    [
      'I14',
      'another reason for the connector than for the client',
      (a) => {
        const targets = a.clients.aborting(['a']);
        a.transfers.finished(100, 'length', null);
        a.clients.aborted(targets, ['a']);
      },
    ],
    [
      'I5',
      'an end that its connector is not told',
      (a) => {
        a.clients.aborted(a.clients.aborting(['a']), ['a']);
        a.saw(show([], [], { hasWork: true }));
      },
    ],
    [
      'I6',
      'blocks that go while a rank still sends them',
      (a) => {
        const targets = a.clients.aborting(['a']);
        a.transfers.finished(100, 'abort', [0]);
        a.clients.aborted(targets, ['a']);
        a.transfers.completions({
          received: [],
          sent: [{ handle: 100, child: 0, rank: 1 }],
          failed: [],
          invalid: [],
          lost: [],
        });
        a.saw(show([]));
      },
    ],
    [
      'I10',
      'an engine that sleeps while blocks are sent',
      (a) => {
        const targets = a.clients.aborting(['a']);
        a.transfers.finished(100, 'abort', [1]);
        a.clients.aborted(targets, ['a']);
        a.saw(show([], [see(100, 'a', { finished: true, container: null })], { hasWork: false }));
      },
    ],
    [
      'I8',
      'a load that one rank of two has brought',
      (a) => {
        a.transfers.matched(100, 0, { numTokens: 4, async: true, child: 0 });
        a.transfers.allocated(100, [[1, 2]], 4, 1);
        a.transfers.completions({
          received: [{ handle: 100, child: 0, rank: 0 }],
          sent: [],
          failed: [],
          invalid: [],
          lost: [],
        });
        a.saw(show([see(100, 'a')]));
      },
    ],
    ['I2', 'a request that runs and is scheduled as new', (a) => a.steps.planned(plan(1, [entry(100)]))],
    [
      'I18',
      'two adapters where one fits',
      () => {
        const a = new Auditor({ ...RULES, maxAdapters: 1 }, () => TOKEN);
        for (const [i, id] of ['a', 'b'].entries()) a.clients.added({ ...ask(id), adapter: id }, 100 + i);
        a.steps.planned(plan(0, [entry(100), entry(101)]));
      },
    ],
    [
      'I15',
      'a load that takes longer than it may',
      (a) => {
        const loading = { status: 'WAITING_FOR_REMOTE_KVS', container: 'skipped' };
        a.clients.added(ask('b'), 101);
        a.transfers.matched(101, 0, { numTokens: 4, async: true, child: 0 });
        a.transfers.allocated(101, [[3, 4]], 4, 1);
        a.began(101, true, true);
        a.steps.planned(plan(1, []));
        a.saw(show([see(100, 'a'), see(101, 'b', { ...loading, blocks: [3, 4] })], [], { now: 101 }));
      },
    ],
    [
      'I15',
      'blocks that are waited for longer than they may be',
      () => {
        const a = new Auditor({ ...RULES, reclaimDeadline: 50 }, () => TOKEN);
        a.clients.added(ask('a'), 100);
        const targets = a.clients.aborting(['a']);
        a.transfers.finished(100, 'abort', [1]);
        a.clients.aborted(targets, ['a']);
        a.began(50, true, true);
        a.steps.planned(plan(0, [], { finished: ['a'], finishedHandles: [100] }));
        a.saw(show([], [see(100, 'a', { finished: true, container: null })]));
      },
    ],
    [
      'I15',
      'a session that waits for its next chunk longer than it may',
      () => {
        const a = new Auditor({ ...RULES, reporters: null, inputDeadline: 50 }, () => TOKEN);
        a.clients.added({ ...ask('a'), isSession: true, maxTokens: 1 }, 100);
        a.steps.planned(plan(0, [entry(100)]));
        a.steps.updated(0, RIGHT, [{ handle: 100, tokens: [TOKEN], reason: 'length', continues: true }]);
        a.began(50, true, true);
        a.steps.planned(plan(1, []));
        const idle = { status: 'WAITING_FOR_STREAMING_REQ', container: 'skipped', numTokens: 6 };
        a.saw(show([see(100, 'a', idle)]));
      },
    ],
    [
      'I15',
      'a grammar that is waited for longer than it may be',
      () => {
        const a = new Auditor({ ...RULES, reporters: null, grammarDeadline: 50 }, () => TOKEN);
        a.clients.added({ ...ask('a'), hasGrammar: true }, 100);
        a.began(50, true, true);
        a.steps.planned(plan(0, []));
        const waits = { status: 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR', container: 'skipped' };
        a.saw(show([see(100, 'a', { ...waits, blocks: [], numComputed: 0 })]));
      },
    ],
    ['I6', 'a connector that is asked to stop what nobody aborted', (a) => a.clients.cancelling(100)],
    [
      'I6',
      'a connector that is not asked to stop what was aborted',
      () => {
        const a = aborted();
        a.clients.aborted(a.clients.aborting(['a']), []);
      },
    ],
    [
      'I5',
      'a connector that is asked twice to stop',
      () => {
        const a = aborted();
        a.clients.aborting(['a']);
        for (let i = 0; i < 2; i++) a.clients.cancelling(100);
      },
    ],
    [
      'I11',
      'a request that starts again and shares nothing bad',
      (a) => {
        a.recomputes.began(0, RIGHT, []);
        update(a, [{ handle: 100, tokens: [TOKEN], reason: null, continues: false }]);
        const waits = { status: 'PREEMPTED', container: 'waiting', numComputed: 0, blocks: [] };
        a.saw(show([see(100, 'a', { ...waits, numTokens: 6 })]));
      },
    ],
    [
      'I10',
      'a request that waits where there is room for it',
      (a) => {
        a.clients.added(ask('b'), 101);
        a.began(1, true, true);
        a.steps.planned(plan(1, []));
        const waits = { status: 'WAITING', container: 'waiting', blocks: [], numComputed: 0 };
        a.saw(show([see(100, 'a'), see(101, 'b', waits)]));
      },
    ],
    [
      'I10',
      'work where there is none',
      () => new Auditor({ ...RULES, reporters: null }, () => TOKEN).saw(show([])),
    ],
    [
      'I10',
      'no work where the connector has some',
      (a) => a.saw(show([see(100, 'a')], [], { hasWork: false, connectorWorks: true })),
    ],
    [
      'I14',
      'a request that goes on and says what stopped it',
      (a) => a.saw(show([see(100, 'a', { stopReason: 7 })])),
    ],
    [
      'I14',
      'a chunk that is taken for what is no session',
      (a) => a.sessions.chunked('a', { prompt: new Int32Array(1), stops: ask('a') }, 'queued'),
    ],
    ['I14', 'an end that is taken for what is no session', (a) => a.sessions.ended('a', 'ended')],
    [
      'I18',
      'a token that a grammar was shown and its client not given',
      (a) => {
        a.grammars.accepted(100, [TOKEN], true);
        a.saw(show([see(100, 'a')]));
      },
    ],
    [
      'I10',
      'a victim whose blocks are used, where there is another',
      (a) => {
        a.clients.added(ask('b'), 101);
        a.saw(show([see(100, 'a'), see(101, 'b', { blocks: [3, 4] })]));
        a.clients.held(100, 'store', 'x', true);
        a.began(2, true, true);
        a.steps.planned(plan(1, [], { preempted: ['a'] }));
        const waits = { status: 'PREEMPTED', container: 'waiting', numComputed: 0, blocks: [], kept: [1, 2] };
        const pool = { refs: [0, 1, 1, 1, 1, 0, 0, 0, 0], free: [5, 6, 7, 8] };
        const left = [see(100, 'a', waits), see(101, 'b', { blocks: [3, 4] })];
        const gauges = { ...show(left).gauges, freeBlocks: 4 };
        a.saw(show(left, [], { ...pool, gauges }));
      },
    ],
    [
      'I10',
      'a request that waits and gives up blocks that something uses',
      (a) => {
        const waits = { status: 'WAITING', container: 'waiting' };
        a.saw(show([see(100, 'a', waits)]));
        a.clients.held(100, 'store', 'x', true);
        a.began(2, true, true);
        a.steps.planned(plan(1, [], { preempted: ['b'] }));
        const gone = { ...waits, numComputed: 0, blocks: [], kept: [1, 2] };
        const pool = { refs: [0, 1, 1, 0, 0, 0, 0, 0, 0], free: [3, 4, 5, 6, 7, 8] };
        const left = [see(100, 'a', gone)];
        const gauges = { ...show(left).gauges, freeBlocks: 6 };
        a.saw(show(left, [], { ...pool, gauges }));
      },
    ],
    ['I19', 'an engine that is not empty', (a) => a.empty(show([see(100, 'a')]))],
  ])('%s: sees %s', (invariant, _, breaks) => {
    expect(() => breaks(running())).toThrow(new RegExp(`^${invariant}:`));
  });
});
