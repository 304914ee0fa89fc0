import { badArg, checkBoolean, checkOneOf, isObject } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { KvViewGroup } from '../connector/view-group.js';
import type { KvGroupType } from '../events/kv-event.js';
import type { Deviations } from './deviations.js';
import { checkTogether } from './groups-together.js';
import type { VersionRules } from './rules.js';

/**
 * A KV cache group: layers of a model that share one table of blocks. All groups take their blocks
 * from one pool. A block has the same number of bytes in every group, so its number of tokens may
 * differ.
 */
export interface KvGroupOptions {
  /** How much of the preceding tokens a token needs. */
  readonly type: KvGroupType;
  /**
   * Tokens per block. Default: the option `blockSize`; for `mamba` in mode `none`: `maxModelLen`.
   */
  readonly blockSize?: number;
  /** For `sliding`: tokens that a token attends to, itself included. */
  readonly window?: number;
  /** For `chunked`: tokens of a chunk. */
  readonly chunk?: number;
  /**
   * For `mamba`: which states are kept. `none`: the last one; `align`: those where a step ended at
   * the end of a block; `all`: those at the end of each block. Default `align` with prefix caching,
   * and `none` without. All groups of a model have the same mode.
   */
  readonly mode?: 'none' | 'align' | 'all';
  /** For `mamba`: blocks for the states of draft tokens. Default `numSpeculativeTokens`. */
  readonly numSpeculativeBlocks?: number;
  /**
   * For `sink`: tokens whose blocks are permanently taken out of the pool; a multiple of the
   * group's block size.
   */
  readonly sinkTokens?: number;
  /**
   * Whether the group holds layers of a drafter (vLLM is_eagle_group). Default: with `eagle` all
   * groups, if none sets this.
   */
  readonly eagle?: boolean;
}

/** A checked group. */
export interface KvGroup extends KvViewGroup {
  /**
   * Groups with equal type and numbers have equal values, from 0 in the order of their first
   * groups. They are looked up together.
   */
  readonly spec: number;
}

/** The groups of a scheduler. */
export interface KvGroups {
  readonly list: readonly KvGroup[];
  /** The number of tokens that a block hash covers: a divisor of every block size. */
  readonly hashBlockSize: number;
  /** The least common multiple of the block sizes, in tokens. */
  readonly alignment: number;
  /**
   * Whether steps must end where blocks end, so that a state can be kept there (Mamba in mode
   * `align`).
   */
  readonly alignsSteps: boolean;
  /**
   * Whether a group holds states (Mamba). They exist only when the step that makes them is over,
   * and blocks beside them must be zeroed.
   */
  readonly hasStates: boolean;
}

/** The options that the groups depend on. */
export interface KvGroupsContext extends Pick<VersionRules, 'windowBasis' | 'retention'> {
  readonly blockSize: number;
  readonly maxModelLen: number;
  readonly maxNumBatchedTokens: number;
  readonly longPrefillTokenThreshold: number;
  readonly enableChunkedPrefill: boolean;
  readonly enablePrefixCaching: boolean;
  readonly numSpeculativeTokens: number;
  readonly speculativeMethod: 'ngram' | 'eagle' | 'draft_model';
  readonly hasConnector: boolean;
  readonly pipelineDepth: number;
  readonly deviations: Pick<Deviations, 'keepDraftWindows'>;
}

const MAX_GROUPS = 8;
const GROUP_NAMES = knownNames<KvGroupOptions>('kvGroups', {
  type: true,
  blockSize: true,
  window: true,
  chunk: true,
  mode: true,
  numSpeculativeBlocks: true,
  sinkTokens: true,
  eagle: true,
});
const TYPES = ['full', 'mla', 'sink', 'sliding', 'chunked', 'mamba'] as const;

/** Whether every token of the group's layers needs all tokens before it. */
export function isFull({ type }: Pick<KvGroup, 'type'>): boolean {
  return type === 'full' || type === 'mla' || type === 'sink';
}

/**
 * Checks the groups and fills in their defaults.
 * @returns null for one group that needs all tokens, because a scheduler without groups has just
 * that
 * @throws ERR_BLOCKSTEP_BAD_ARG, also for combinations that vLLM refuses at its start
 */
export function parseKvGroups(
  value: unknown,
  hashBlockSize: number | undefined,
  context: KvGroupsContext,
): KvGroups | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_GROUPS)
    throw badArg('kvGroups', value, `a list of 1 to ${MAX_GROUPS} groups`);
  const parsed = value.map((group: unknown, i) => parseGroup(`kvGroups[${i}]`, group, context));
  const specs: string[] = [];
  const list = parsed.map((group) => {
    const { eagle: _, ...facts } = group;
    const key = JSON.stringify(facts);
    if (!specs.includes(key)) specs.push(key);
    return { ...group, spec: specs.indexOf(key) };
  });
  const drafts = context.speculativeMethod === 'eagle' && context.numSpeculativeTokens > 0;
  const flagsAll = drafts && !list.some(({ eagle }) => eagle);
  const groups = list.map((group) =>
    Object.freeze({
      ...group,
      eagle: flagsAll || list.some(({ spec, eagle }) => eagle && spec === group.spec),
    }),
  );
  if (isUsual(groups, hashBlockSize, context, flagsAll)) return null;
  const sizes = groups.map(({ blockSize }) => blockSize);
  const alignment = sizes.reduce(lcm);
  checkTogether(groups, alignment, context);
  // Without a prefix cache nothing depends on it.
  const hashed = parseHashBlockSize(context.enablePrefixCaching ? hashBlockSize : undefined, sizes);
  return Object.freeze({
    list: Object.freeze(groups),
    hashBlockSize: hashed,
    alignment,
    alignsSteps: groups.some(({ mode }) => mode === 'align'),
    hasStates: groups.some(({ type }) => type === 'mamba'),
  });
}

/** The groups of a configuration: where it has no `kvGroups`, one group of full attention. */
export function groupsOf({
  kvGroups,
  blockSize,
}: {
  kvGroups: KvGroups | null;
  blockSize: number;
}): KvGroups {
  if (kvGroups !== null) return kvGroups;
  const none = { window: 0, chunk: 0, mode: null, numSpeculativeBlocks: 0, sinkTokens: 0, eagle: false };
  const list = [{ type: 'full', blockSize, ...none, spec: 0 } as const];
  return { list, hashBlockSize: blockSize, alignment: blockSize, alignsSteps: false, hasStates: false };
}

/** Whether these are what a scheduler without the option has. */
function isUsual(
  [group, ...others]: readonly KvGroup[],
  hashBlockSize: number | undefined,
  { blockSize }: KvGroupsContext,
  flagsAll: boolean,
): boolean {
  const isPlain = others.length === 0 && isFull(group) && group.type !== 'sink' && group.eagle === flagsAll;
  return isPlain && group.blockSize === blockSize && (hashBlockSize ?? blockSize) === blockSize;
}

/** The options that give these groups. */
export function groupOptions(groups: KvGroups | null): {
  kvGroups?: KvGroupOptions[];
  hashBlockSize?: number;
} {
  if (groups === null) return {};
  const kvGroups = groups.list.map((group): KvGroupOptions => {
    const { type, blockSize, window, chunk, mode, numSpeculativeBlocks, sinkTokens, eagle } = group;
    return {
      type,
      blockSize,
      eagle,
      ...(type === 'sliding' && { window }),
      ...(type === 'chunked' && { chunk }),
      ...(type === 'sink' && { sinkTokens }),
      ...(mode !== null && { mode, numSpeculativeBlocks }),
    };
  });
  return { kvGroups, hashBlockSize: groups.hashBlockSize };
}

function parseGroup(name: string, value: unknown, context: KvGroupsContext): Omit<KvGroup, 'spec'> {
  if (!isObject(value)) throw badArg(name, value, 'an object with a type');
  checkNames(value, GROUP_NAMES);
  const { type, blockSize, window, chunk, mode, numSpeculativeBlocks, sinkTokens, eagle } =
    value as unknown as KvGroupOptions;
  if (!TYPES.includes(type)) throw badArg(`${name}.type`, type, `one of ${TYPES.join(', ')}`);
  const only = (field: string, given: unknown, owner: KvGroup['type']): void => {
    if (given !== undefined && type !== owner)
      throw badArg(`${name}.${field}`, given, `none in a group of type ${type}: it is for ${owner}`);
  };
  only('window', window, 'sliding');
  only('chunk', chunk, 'chunked');
  only('mode', mode, 'mamba');
  only('numSpeculativeBlocks', numSpeculativeBlocks, 'mamba');
  only('sinkTokens', sinkTokens, 'sink');
  const parsed = type === 'mamba' ? parseMode(`${name}.mode`, mode, context) : null;
  const defaultSize = parsed === 'none' ? context.maxModelLen : context.blockSize;
  const size = checkInteger(`${name}.blockSize`, blockSize ?? defaultSize, 1, 2 ** 30);
  const sinks = type === 'sink' ? checkInteger(`${name}.sinkTokens`, sinkTokens, 1, 2 ** 20) : 0;
  if (sinks % size !== 0)
    throw badArg(`${name}.sinkTokens`, sinks, `a multiple of the group's blockSize (${size})`);
  return {
    type,
    blockSize: size,
    window: type === 'sliding' ? checkInteger(`${name}.window`, window, 1, 2 ** 30) : 0,
    chunk: type === 'chunked' ? checkInteger(`${name}.chunk`, chunk, 1, 2 ** 30) : 0,
    mode: parsed,
    numSpeculativeBlocks:
      type === 'mamba'
        ? checkInteger(
            `${name}.numSpeculativeBlocks`,
            numSpeculativeBlocks ?? context.numSpeculativeTokens,
            0,
            64,
          )
        : 0,
    sinkTokens: sinks,
    eagle: eagle === undefined ? false : checkBoolean(`${name}.eagle`, eagle),
  };
}

function parseMode(
  name: string,
  mode: unknown,
  { enablePrefixCaching }: KvGroupsContext,
): 'none' | 'align' | 'all' {
  const parsed = checkOneOf(name, mode ?? (enablePrefixCaching ? 'align' : 'none'), ['none', 'align', 'all']);
  if (enablePrefixCaching && parsed === 'none')
    throw badArg(name, parsed, 'align or all with prefix caching, which finds states that were kept');
  if (!enablePrefixCaching && parsed !== 'none') throw badArg(name, parsed, 'none without prefix caching');
  return parsed;
}

function parseHashBlockSize(given: number | undefined, sizes: readonly number[]): number {
  const size = checkInteger('hashBlockSize', given ?? sizes.reduce(gcd), 1, 2 ** 30);
  if (sizes.every((each) => each % size === 0)) return size;
  throw badArg('hashBlockSize', size, `a divisor of the block sizes of all groups (${sizes.join(', ')})`);
}

/**
 * The maximum number of places of a group's row for a request of `numTokens` tokens. It covers the
 * places held while the request is computed in steps of the token budget, and those for which its
 * admission is tested.
 */
export function mostPlaces(
  group: KvGroup,
  numTokens: number,
  context: KvGroupsContext & {
    reserveFullIsl: boolean;
    deviations: Pick<Deviations, 'capStates' | 'dropStates'>;
  },
  drafts: number,
): number {
  const { mode, blockSize, window, chunk, numSpeculativeBlocks } = group;
  const places = Math.ceil(numTokens / blockSize) + numSpeculativeBlocks;
  const forgetsStates = stepsKept(context) > 1 && !context.deviations.dropStates;
  if (mode === 'align')
    return forgetsStates ? places : Math.min(places, 1 + stepsKept(context) + numSpeculativeBlocks);
  if (mode !== null) {
    // If admissions are tested for a state in every block of the prompt, that many must be there.
    if (context.reserveFullIsl && !context.deviations.capStates) return places;
    return Math.min(places, statesOfStep(group, context, drafts) + numSpeculativeBlocks);
  }
  if (window + chunk === 0) return places;
  // A chunk that begins within a block takes one more than vLLM counts at an admission.
  const within = chunk % blockSize > 0 ? 1 : 0;
  return Math.min(places, admissionCap(group, context, drafts) + within);
}

type StepContext = Pick<KvGroupsContext, 'maxNumBatchedTokens' | 'pipelineDepth' | 'windowBasis'>;

/**
 * The number of steps whose tokens drop nothing yet: the planned step, and with `windowBasis`
 * processed also those in flight.
 */
function stepsKept({ pipelineDepth, windowBasis }: Omit<StepContext, 'maxNumBatchedTokens'>): number {
  return windowBasis === 'processed' ? pipelineDepth : 1;
}

/** Tokens of those steps (vLLM max_in_flight_tokens). */
function keptTokens(context: StepContext): number {
  return stepsKept(context) * context.maxNumBatchedTokens;
}

/**
 * The maximum number of states that a step makes if every block has one, and of the states that it
 * continues from.
 * @param drafts draft tokens of a step that count. They have states too, and earlier states are
 * kept until no draft can be rejected
 */
export function statesOfStep(
  { blockSize, numSpeculativeBlocks }: KvGroup,
  context: StepContext,
  drafts: number,
): number {
  const before = Math.max(blockSize, drafts + numSpeculativeBlocks);
  return Math.ceil((keptTokens(context) + before) / blockSize) + 1;
}

/**
 * The maximum number of places of a group's row for which an admission is tested; 0 = no limit.
 * @param drafts draft tokens of a step that count; vLLM counts none
 */
export function admissionCap(
  { type, blockSize, window, chunk }: KvGroup,
  context: StepContext & Pick<KvGroupsContext, 'maxModelLen'>,
  drafts: number,
): number {
  const { maxModelLen } = context;
  const kept = keptTokens(context);
  if (type === 'sliding') return Math.ceil(Math.min(window - 1 + kept + drafts, maxModelLen) / blockSize) + 1;
  if (type === 'chunked') return Math.ceil(Math.min(chunk + kept + drafts, maxModelLen) / blockSize);
  return 0;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

function lcm(a: number, b: number): number {
  return (a / gcd(a, b)) * b;
}
