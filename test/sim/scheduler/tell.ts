// The words for events in a failure.
import { type RuledConfig, ruledConfig } from '../../../src/scheduler/options/options.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { PlanFacts, RowFacts, Rules, TransferFacts, VersionFacts } from '../audit/facts.js';
import { groupsOf } from '../shared/kv/groups-of.js';

/** How events read in a failure. */
interface Names {
  name(handle: number): string;
}

export function describePlan(plan: PlanFacts, name: (handle: number) => string): string {
  const entries = plan.entries.map(({ handle, kind, scheduled, computed, numBlocks }) => {
    const word = kind === 'running' ? '' : `${kind} `;
    return `${word}${name(handle)} ${computed}+${scheduled} in ${numBlocks} blocks`;
  });
  const preempted = plan.preempted.length > 0 ? `; preempted [${plan.preempted}]` : '';
  const finished = plan.finished.length > 0 ? `; finished [${plan.finished}]` : '';
  return `${entries.length === 0 ? 'nothing' : entries.join(', ')}${preempted}${finished}`;
}

export function describeTransfers(facts: TransferFacts, names: Names): string {
  const of = ({ handle, child, rank }: { handle: number; child: number; rank: number }) =>
    `${names.name(handle)} by ${child}.${rank}`;
  const said: string[] = [];
  for (const kind of ['failed', 'received', 'sent'] as const) {
    if (facts[kind].length > 0) said.push(`${kind} ${facts[kind].map(of).join(', ')}`);
  }
  const invalid = facts.invalid.map(
    ({ block, handle, child }) =>
      `${block}${handle === undefined ? '' : ` of ${names.name(handle)}`} by ${child}`,
  );
  if (invalid.length > 0) said.push(`invalid ${invalid.join(', ')}`);
  if (facts.lost.length > 0) said.push(`lost ${facts.lost}`);
  return said.length === 0 ? '' : `: ${said.join('; ')}`;
}

export function describeRow({ handle, tokens, reason, continues }: RowFacts, names: Names): string {
  const end = reason === null ? '' : ` ${reason}${continues ? ' of an answer' : ''}`;
  return `${names.name(handle)} +${tokens.length}${end}`;
}

function versionOf(config: RuledConfig, moves: boolean): VersionFacts {
  const { numSpeculativeTokens: drafts, longPrefillTokenThreshold: threshold } = config;
  return {
    unhashedFirst: config.freeOrder === 'unhashedFirst',
    lookahead: config.speculativeMethod === 'ngram' ? 0 : drafts,
    admissionLookahead: config.admissionLookahead,
    spare: Math.floor(config.watermark * config.numBlocks),
    loadReservation: config.loadReservation && moves,
    draftSlots: config.draftSlots,
    padDecode: config.padDecode,
    padsNobody: threshold > 0 && threshold < 1 + drafts,
    fencesFrees: config.fenceFrees && moves,
    seatsIdle: config.sessionSeats === 'withIdle',
    wholeStates: config.deviations.wholeStates,
    preemptedOutputs: config.preemptedOutputs,
    sinceLast: config.preemptedIds === 'sinceLast',
    failsWithUpdate: config.grammarFailures === 'update',
  };
}

/** The auditor's rules for a scheduler's configuration. */
export function rulesOf(scheduler: Scheduler, connector: { reporters: number[][] } | null): Rules {
  const config = ruledConfig(scheduler.config);
  const { numBlocks, blockSize, maxNumSeqs, maxNumBatchedTokens, maxModelLen, numRows, pipelineDepth } =
    config;
  // A single step at a time verifies drafts here: no states of drafts are kept.
  const groups = groupsOf(config.kvGroups?.list, { blockSize, maxModelLen, spare: 0 });
  return {
    groups,
    drafts: config.speculativeMethod === 'ngram' ? 0 : config.numSpeculativeTokens,
    blockSize: groups[0].size,
    ...{ numBlocks, maxNumSeqs, maxNumBatchedTokens, maxModelLen, numRows, pipelineDepth },
    stepsKept: config.windowBasis === 'processed' ? pipelineDepth : 1,
    maxDrafts: config.numSpeculativeTokens,
    reporters: connector?.reporters ?? null,
    loadFailurePolicy: config.loadFailurePolicy,
    loadDeadline: config.deadlines.load,
    reclaimDeadline: config.deadlines.reclaim,
    inputDeadline: config.deadlines.streamingInput,
    grammarDeadline: config.deadlines.grammar,
    queueDeadline: config.deadlines.queue,
    maxAdapters: config.maxLoras,
    cancels: config.reclaim === 'on-confirmation',
    version: versionOf(config, connector !== null),
  };
}
