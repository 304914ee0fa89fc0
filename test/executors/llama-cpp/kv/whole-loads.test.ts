// A prompt that was loaded whole: its last token is computed, into a block that others have too.
import { expect, it } from 'vitest';
import type { StepTables } from '../../../../src/core/tables.js';
import type { ExecutorPlan } from '../../../../src/engine/executor/executor.js';
import { Planner } from '../../../../src/executors/llama-cpp/step/planner.js';
import { EntryKind } from '../../../../src/scheduler/plan/plan.js';

const SIZE = 4;
const PROMPT = Int32Array.of(11, 12, 13, 14, 15, 16, 17, 18);

function planOf(handle: number, computed: number): [ExecutorPlan, StepTables] {
  const plan = {
    ...{ numRequests: 1, requests: [{ handle, numPromptTokens: 8, params: undefined }] },
    ...{ numComputedTokens: Int32Array.of(computed), numScheduledTokens: Int32Array.of(8 - computed) },
    ...{ numDraftTokens: Int32Array.of(0), numInvalidDraftTokens: Int32Array.of(0) },
    ...{ draftTokens: new Int32Array(0), maxDrafts: 0, kinds: [EntryKind.new] },
    ...{ numBlocks: Int32Array.of(2), numNewBlocks: Int32Array.of(2), maxOutputTokens: Int32Array.of(1) },
    ...{ finishedHandles: [], preemptedHandles: [] },
  };
  const tables = {
    ...{ blockTable: Int32Array.of(1, 2), maxBlocksPerRow: 2, queryStart: Int32Array.of(0) },
    inputIds: PROMPT.subarray(computed),
    readTokens: (_: number, from: number, into: Int32Array) =>
      into.set(PROMPT.subarray(from, from + into.length)),
  };
  return [plan as unknown as ExecutorPlan, tables as unknown as StepTables];
}

it.each([
  // Only the tokens in front of the last one are hits, and the block of the last token gets new cells.
  [7, 4, 3],
  // A whole block is shared.
  [4, 4, 0],
])('computes behind %i loaded tokens %i tokens, %i of them again', (computed, numTokens, recomputed) => {
  const planner = new Planner(
    { numBlocks: 4, blockSize: SIZE, maxBlocks: 4, numSequences: 3, keepsPrefixes: true },
    { batch: 16, splitFrom: 64, outputs: 4 },
  );
  const { cells } = planner;
  const sequence = cells.open()!;
  for (const block of [1, 2]) {
    cells.give(block, sequence, block - 1);
    cells.fillLoaded(block, sequence);
  }
  cells.retire(sequence);
  const [plan, tables] = planOf(5, computed);
  planner.plan(plan, tables, Int32Array.of(-1), Int32Array.of(-1));
  expect(planner.program.numTokens).toBe(numTokens);
  expect(planner.counts.recomputed).toBe(recomputed);
  expect([...planner.program.tokens.subarray(0, numTokens)]).toEqual([...PROMPT.subarray(4)]);
  // Each block has one cell for each of its tokens.
  expect(cells.cells).toBe(8);
  const own = planner.sequenceOf(5);
  expect(cells.ownerOf(2, sequence)).toBe(own);
  expect(cells.isOfOthers(1, own)).toBe(true);
  expect(cells.isOfOthers(2, own)).toBe(false);
});
