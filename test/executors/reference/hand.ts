import { type StepTables, tablesBytes, tableViews } from '../../../src/core/tables.js';
import type { ExecutorPlan } from '../../../src/engine/executor/executor.js';
import type { ReferenceExecutorOptions } from '../../../src/executors/reference/options.js';
import { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';

/** Sizes of an executor that is fed by hand. */
export const HAND = {
  numBlocks: 10,
  blockSize: 4,
  maxNumSeqs: 3,
  maxNumBatchedTokens: 16,
  maxModelLen: 24,
  numSpeculativeTokens: 2,
} as const;
const SHAPE = { maxTokens: 16, maxEntries: 3, maxBlocksPerRow: 6 };

export function handExecutor(options: Partial<ReferenceExecutorOptions> = {}): ReferenceExecutor {
  return new ReferenceExecutor({ ...HAND, ...options });
}

/**
 * One entry of a plan made by hand. Fields that are left out have the values of a running decode.
 */
export interface HandEntry {
  handle: number;
  /** 0 running, 1 new, 2 resumed. */
  kind?: number;
  computed: number;
  /** Tokens to compute, as the tables say; drafts are -1 there. */
  input: number[];
  blocks: number[];
  newBlocks?: number;
  drafts?: number[];
  samples?: boolean;
  /** All tokens that the scheduler knows, of an admitted entry. */
  known?: number[];
  numPrompt?: number;
}

export const PROMPT = [5, 6, 7, 5, 6];

/** A new request of five tokens in blocks 1 and 2. */
export const ADMITTED: HandEntry = {
  handle: 1,
  kind: 1,
  computed: 0,
  input: PROMPT,
  blocks: [1, 2],
  newBlocks: 2,
  known: PROMPT,
};

/** A plan and its tables, right in themselves, made of these entries. */
export function handMade(entries: HandEntry[], step = 0): { plan: ExecutorPlan; tables: StepTables } {
  const buffer = new ArrayBuffer(tablesBytes(SHAPE));
  const views = tableViews(buffer, SHAPE);
  const columns = (of: (entry: HandEntry) => number) => Int32Array.from(entries, of);
  const maxDrafts = HAND.numSpeculativeTokens;
  const draftTokens = new Int32Array(entries.length * maxDrafts);
  let token = 0;
  views.inputIds.fill(-1);
  views.slotMapping.fill(-1n);
  entries.forEach((entry, e) => {
    views.queryStart[e] = token;
    views.seqLens[e] = entry.computed + entry.input.length;
    views.numComputedTokens[e] = entry.computed;
    views.blockTable.set(entry.blocks, e * SHAPE.maxBlocksPerRow);
    entry.input.forEach((id, i) => {
      const position = entry.computed + i;
      views.inputIds[token] = id;
      views.slotMapping[token++] = BigInt(entry.blocks[Math.floor(position / 4)] * 4 + (position % 4));
    });
    draftTokens.set(entry.drafts ?? [], e * maxDrafts);
  });
  views.queryStart.fill(token, entries.length);
  const numScheduledTokens = columns(({ input }) => input.length);
  const numBlocks = columns(({ blocks }) => blocks.length);
  const numNewBlocks = columns(({ newBlocks = 0 }) => newBlocks);
  const numHitBlocks = new Int32Array(entries.length);
  const plan: ExecutorPlan = {
    step,
    frame: 0,
    numRequests: entries.length,
    totalTokens: token,
    requests: entries.map(({ handle, known, numPrompt }) => ({
      id: `h${handle}`,
      handle,
      numPromptTokens: numPrompt ?? known?.length ?? 1,
      lengthLimit: Number.MAX_SAFE_INTEGER,
      grammar: null,
    })),
    kinds: Uint8Array.from(entries, ({ kind = 0 }) => kind),
    slots: columns(({ handle }) => handle % 2 ** 21),
    numScheduledTokens,
    numComputedTokens: columns(({ computed }) => computed),
    numBlocks,
    numNewBlocks,
    numDraftTokens: columns(({ drafts = [] }) => drafts.length),
    draftTokens,
    maxDrafts,
    needsAllTokens: Uint8Array.from(entries, ({ kind = 0 }) => (kind === 0 ? 0 : 1)),
    numInvalidDraftTokens: new Uint8Array(entries.length),
    bitmaskEntries: () => [],
    maxOutputTokens: Uint8Array.from(entries, ({ samples = true, drafts = [] }) =>
      samples ? 1 + drafts.length : 0,
    ),
    preempted: [],
    finished: [],
    finishedHandles: [],
    preemptedHandles: [],
    numHitBlocks,
    groups: [{ numBlocks, numNewBlocks, numHitBlocks, numCommonPrefixBlocks: 0 }],
    takenBlocks: new Int32Array(0),
    droppedBlocks: new Int32Array(0),
    forgottenBlocks: new Int32Array(0),
    blocksToZero: null,
  };
  const readTokens = (entry: number, from: number, out: Int32Array): number => {
    const tokens = (entries[entry].known ?? []).slice(from, from + out.length);
    out.set(tokens);
    return tokens.length;
  };
  const { slotMapping, blockTable } = views;
  const { maxBlocksPerRow } = SHAPE;
  const groups = [{ slotMapping, blockTable, blockSize: HAND.blockSize, maxBlocksPerRow }];
  return { plan, tables: { ...SHAPE, ...views, groups, buffer, readTokens } };
}
