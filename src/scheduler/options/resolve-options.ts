import { badArg, checkBoolean, checkOneOf, isObject } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { resolvePlacement } from '../../core/placement.js';
import { checkDecidable } from '../authority/limits/device-limits.js';
import { bindBorrower } from '../borrow/ask-borrower.js';
import { type ConnectorMethods, parseConnector } from '../connector/connector-methods.js';
import { parseKvEventSink } from '../events/kv-event.js';
import { DEFAULT_DEADLINES, type Deadlines, MAX_TIMEOUT } from '../request/wait.js';
import { parseDeviations } from './deviations.js';
import { parseHashSeed } from './hash-seed.js';
import { groupsOf, parseKvGroups } from './kv-groups.js';
import { SCHEDULER_OPTIONS } from './option-names.js';
import {
  DEFAULT_LIMITS,
  type LogSink,
  type RuledConfig,
  type SchedulerOptions,
  wholeStepTokens,
} from './options.js';
import {
  COMMITS,
  type Commit,
  MENDED,
  parseRules,
  rulesOf,
  type VersionRules,
  VLLM_VERSIONS,
} from './rules.js';
import { rulesIn } from './single-rules.js';

const DEADLINE_NAMES = knownNames<Deadlines>('deadlines', DEFAULT_DEADLINES);
const MAX_BLOCKS = 2 ** 20;
const MAX_ROWS = 4096;
const MAX_RANKS = 65_536;
const MAX_BLOCKS_PER_ROW = 2 ** 20;
/** The maximum number of blocks of a row for the states of drafts. */
const MAX_SPARE_BLOCKS = 64;
const MAX_TOKENS = 2 ** 30;

/**
 * Checks the options and fills in the defaults.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and what was expected
 */
export function resolveOptions(options: SchedulerOptions): RuledConfig {
  if (typeof options !== 'object' || options === null) throw badArg('options', options, 'an object');
  checkNames(options, SCHEDULER_OPTIONS);
  const o = options;
  const maxNumSeqs = integer('maxNumSeqs', o.maxNumSeqs, DEFAULT_LIMITS.maxNumSeqs, 1, MAX_ROWS);
  const like = parseLike(o.like);
  const connector = parseConnectorOption(o);
  const limits: Omit<RuledConfig, 'kvGroups' | keyof VersionRules> = {
    numBlocks: integer('numBlocks', o.numBlocks, undefined, 2, MAX_BLOCKS),
    blockSize: integer('blockSize', o.blockSize, 16, 1, 2 ** 16),
    maxNumSeqs,
    maxNumBatchedTokens: integer(
      'maxNumBatchedTokens',
      o.maxNumBatchedTokens,
      DEFAULT_LIMITS.maxNumBatchedTokens,
      1,
      MAX_TOKENS,
    ),
    maxModelLen: integer('maxModelLen', o.maxModelLen, DEFAULT_LIMITS.maxModelLen, 2, MAX_TOKENS),
    enablePrefixCaching: boolean('enablePrefixCaching', o.enablePrefixCaching, true),
    policy: checkOneOf('policy', o.policy, ['fcfs', 'priority'] as const),
    enableChunkedPrefill: boolean('enableChunkedPrefill', o.enableChunkedPrefill, true),
    longPrefillTokenThreshold: integer(
      'longPrefillTokenThreshold',
      o.longPrefillTokenThreshold,
      0,
      0,
      MAX_TOKENS,
    ),
    reserveFullIsl: boolean('reserveFullIsl', o.reserveFullIsl, true),
    pipelineDepth: integer('pipelineDepth', o.pipelineDepth, DEFAULT_LIMITS.pipelineDepth, 1, 3),
    numSpeculativeTokens: integer(
      'numSpeculativeTokens',
      o.numSpeculativeTokens,
      DEFAULT_LIMITS.numSpeculativeTokens,
      0,
      64,
    ),
    speculativeMethod: checkOneOf('speculativeMethod', o.speculativeMethod, [
      'ngram',
      'eagle',
      'draft_model',
    ] as const),
    maxLoras: integer('maxLoras', o.maxLoras, 0, 0, MAX_ROWS),
    numRows: integer('numRows', o.numRows, Math.min(2 * maxNumSeqs, MAX_ROWS), maxNumSeqs, MAX_ROWS),
    hashSeed: parseHashSeed(o.hashSeed ?? connector?.hashSeed),
    deviations: parseDeviations(o.deviations, like === null ? [] : MENDED[like]),
    placement: resolvePlacement(o),
    connector,
    borrower: o.borrower === undefined || o.borrower === null ? null : bindBorrower(o.borrower),
    loadFailurePolicy: checkOneOf('loadFailurePolicy', o.loadFailurePolicy, ['fail', 'recompute'] as const),
    reclaim: checkOneOf('reclaim', o.reclaim, ['on-report', 'on-confirmation'] as const),
    deadlines: parseDeadlines(o.deadlines),
    now: o.now === undefined ? () => performance.now() : checkClock(o.now),
    kvEvents:
      o.kvEvents === undefined || o.kvEvents === null ? null : parseKvEventSink(o.kvEvents, kindOf(o)),
    reportBlocks: boolean('reportBlocks', o.reportBlocks, false),
    steadyDecode: boolean('steadyDecode', o.steadyDecode, true),
    strict: boolean('strict', o.strict, false),
    log: o.log === undefined || o.log === null ? null : checkSink(o.log),
  };
  const context = { ...limits, hasConnector: limits.connector !== null };
  const requiresDelivery = limits.connector?.requiresKvDelivery !== undefined;
  const rules = parseRules(o, rulesIn(o), rulesOf(like, { ...context, requiresDelivery }));
  const config: RuledConfig = {
    ...limits,
    ...rules,
    kvGroups: parseKvGroups(o.kvGroups, o.hashBlockSize, { ...context, ...rules }),
  };
  checkBudget(config);
  const smallest = Math.min(...groupsOf(config).list.map(({ blockSize }) => blockSize));
  if (config.maxModelLen > (MAX_BLOCKS_PER_ROW - MAX_SPARE_BLOCKS) * smallest) {
    const most = `at most ${MAX_BLOCKS_PER_ROW - MAX_SPARE_BLOCKS} blocks of blockSize (${smallest})`;
    throw badArg('maxModelLen', config.maxModelLen, most);
  }
  if (config.borrower !== null && config.log !== null)
    throw badArg(
      'log',
      config.log,
      'none with a borrower: a log does not hold what a borrowing adapter does',
    );
  if (limits.placement.authority === 'device') checkDecidable(config, wholeStepTokens(config));
  return Object.freeze(config);
}

/** One group of MLA decides as full attention does. Only KV cache events distinguish the two. */
function kindOf({ kvGroups }: SchedulerOptions): 'full' | 'mla' {
  const isMla = Array.isArray(kvGroups) && kvGroups.length === 1 && kvGroups[0]?.type === 'mla';
  return isMla ? 'mla' : 'full';
}

/** Refuses a token budget by which no request could ever be scheduled, or none without chunks. */
function checkBudget(config: RuledConfig): void {
  const { maxNumBatchedTokens, draftSlots, enableChunkedPrefill, maxModelLen } = config;
  const refuse = (least: string): Error => badArg('maxNumBatchedTokens', maxNumBatchedTokens, least);
  if (!enableChunkedPrefill && maxNumBatchedTokens < maxModelLen)
    throw refuse(`at least maxModelLen (${maxModelLen}) when enableChunkedPrefill is false`);
  if (maxNumBatchedTokens <= draftSlots) throw refuse(`more than draftSlots (${draftSlots})`);
}

function parseLike(value: unknown): Commit | null {
  if (value === undefined || value === null) return null;
  return COMMITS[checkOneOf('like', value, VLLM_VERSIONS)];
}

function integer(
  name: string,
  value: unknown,
  fallback: number | undefined,
  min: number,
  max: number,
): number {
  return checkInteger(name, value === undefined ? fallback : value, min, max);
}

function boolean(name: string, value: unknown, fallback: boolean): boolean {
  return value === undefined ? fallback : checkBoolean(name, value);
}

function parseConnectorOption({ connector, numRanks }: SchedulerOptions): ConnectorMethods | null {
  const ranks = numRanks === undefined ? undefined : checkInteger('numRanks', numRanks, 1, MAX_RANKS);
  return connector === undefined || connector === null ? null : parseConnector(connector, ranks);
}

function parseDeadlines(value: SchedulerOptions['deadlines']): Readonly<Deadlines> {
  const resolved: Deadlines = { ...DEFAULT_DEADLINES };
  const names = Object.keys(resolved) as (keyof Deadlines)[];
  if (value === undefined) return DEFAULT_DEADLINES;
  if (value === false) {
    for (const name of names) resolved[name] = 0;
    return Object.freeze(resolved);
  }
  if (!isObject(value)) throw badArg('deadlines', value, 'an object or false');
  checkNames(value, DEADLINE_NAMES);
  for (const name of names) {
    const timeout = value[name];
    if (timeout !== undefined) resolved[name] = parseTimeout(`deadlines.${name}`, timeout);
  }
  return Object.freeze(resolved);
}

function parseTimeout(name: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= MAX_TIMEOUT) return value + 0;
  throw badArg(name, value, `milliseconds from 0 to ${MAX_TIMEOUT}, 0 = none`);
}

function checkSink(value: unknown): LogSink {
  if (typeof value === 'object' && value !== null && typeof (value as LogSink).write === 'function') {
    return value as LogSink;
  }
  throw badArg('log', value, 'an object with a function write');
}

function checkClock(value: unknown): () => number {
  if (typeof value !== 'function') throw badArg('now', value, 'a function that returns milliseconds');
  return value as () => number;
}
