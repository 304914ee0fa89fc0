// One flag for each option of the scheduler, named after it.
import { type Command, Option } from 'commander';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { resolveOptions } from '../../scheduler/options/resolve-options.js';
import { VLLM_VERSIONS } from '../../scheduler/options/rules.js';
import { parse } from './flag-values.js';

/**
 * Default size of the pool, in blocks: 56 GiB at 2 MiB per block of 16 tokens. The GPU of the
 * default cost model has about that much free memory.
 */
export const DEFAULT_NUM_BLOCKS = 28_672;

/**
 * The scheduler options with a flag. Deadlines have none, because no request of a trace could miss
 * one.
 */
type FlagKey = Exclude<
  keyof SchedulerOptions,
  | 'now'
  | 'log'
  | 'deviations'
  | 'deadlines'
  | 'numRanks'
  | 'kvEvents'
  | 'reportBlocks'
  | 'backend'
  | 'authority'
  | 'device'
  | 'stream'
  | 'launchThread'
>;

interface SchedulerFlag {
  key: FlagKey;
  help: string;
  /** The values that a text option may have. Default: any. */
  choices?: readonly string[];
  /** vLLM's name of the option, if ours differs. */
  alias?: string;
  /** The name of the value in the help, and its parser. Default: by the type of the option's default. */
  argument?: readonly [name: string, parser?: (text: string) => unknown];
  /** The scheduler itself fills in the default. */
  lateDefault?: true;
  /** The default of a replay, which must be repeatable, and its text in the help. */
  replayed?: readonly [value: unknown, text: string];
}

/** One flag per option, named after it. Types and defaults are those of the scheduler. */
const FLAGS: readonly SchedulerFlag[] = [
  { key: 'numBlocks', help: 'blocks of the KV cache, including the null block' },
  { key: 'blockSize', help: 'tokens per block' },
  { key: 'maxNumSeqs', help: 'maximum number of running requests' },
  { key: 'maxNumBatchedTokens', help: 'maximum number of tokens per step' },
  {
    key: 'maxModelLen',
    help: 'maximum number of tokens of a request, prompt and output (default: enough for the longest request)',
    lateDefault: true,
  },
  { key: 'enablePrefixCaching', help: 'share KV blocks between prompts with a common prefix' },
  { key: 'policy', help: 'order in which requests are admitted', choices: ['fcfs', 'priority'] },
  { key: 'steadyDecode', help: 'plan requests that decode together as one group; decisions stay the same' },
  { key: 'enableChunkedPrefill', help: 'compute a long prompt in several steps' },
  {
    key: 'longPrefillTokenThreshold',
    help: 'maximum number of prompt tokens of one request per step; 0: no limit',
  },
  {
    key: 'reserveFullIsl',
    help: 'admit a request only if blocks for all its tokens so far are free',
    alias: 'scheduler-reserve-full-isl',
  },
  { key: 'pipelineDepth', help: 'steps in flight, 1 to 3; 2 corresponds to vLLM’s --async-scheduling' },
  { key: 'numSpeculativeTokens', help: 'draft tokens per request and step' },
  {
    key: 'speculativeMethod',
    help: 'source of the draft tokens',
    choices: ['ngram', 'eagle', 'draft_model'],
  },
  { key: 'maxLoras', help: 'maximum number of LoRA adapters per step; 0: no limit' },
  {
    key: 'numRows',
    help: 'maximum number of requests that hold blocks (default: twice --max-num-seqs)',
    lateDefault: true,
  },
  { key: 'strict', help: 'stop at the first anomaly instead of counting anomalies' },
  {
    key: 'like',
    help: 'decide by the rules of this version of vLLM',
    argument: ['version'],
    choices: VLLM_VERSIONS,
    lateDefault: true,
  },
  {
    key: 'watermark',
    help: 'share of the blocks that an admission leaves free while other requests run; by default 0',
    argument: ['share', parse.part],
    lateDefault: true,
  },
  {
    key: 'draftSlots',
    help: 'tokens of the step’s budget that each scheduled request takes in addition; by default 0',
    argument: ['n', parse.integer],
    lateDefault: true,
  },
  {
    key: 'hashSeed',
    help: 'key of the block hash, up to 128 bits: a number, or 0x and hex digits',
    argument: ['n', parse.hashSeed],
    lateDefault: true,
    replayed: [0n, '0'],
  },
  {
    key: 'kvGroups',
    help: 'KV cache groups, in the form of the option kvGroups: [{"type": "full"}, {"type": "sliding", "window": 128}]',
    argument: ['json', parse.list],
    lateDefault: true,
  },
  {
    key: 'hashBlockSize',
    help: 'with --kv-groups: tokens per block hash',
    argument: ['n', parse.integer],
    lateDefault: true,
  },
];

/**
 * Defaults that differ by command. A replay must be repeatable; a server's hashes must be
 * unpredictable.
 */
export interface FlagDefaults {
  readonly isServed?: boolean;
}

/** Adds a flag for every scheduler option. */
export function addSchedulerFlags(command: Command, { isServed = false }: FlagDefaults = {}): void {
  const defaults: Partial<Record<FlagKey, unknown>> = resolveOptions({ numBlocks: DEFAULT_NUM_BLOCKS });
  for (const flag of FLAGS) {
    const options = makeOptions(flag, defaults[flag.key]);
    if (flag.replayed !== undefined && !isServed) options[0].default(...flag.replayed);
    for (const option of options) command.addOption(option);
  }
  command.addOption(new Option('--no-deviations', 'decide as vLLM does even where vLLM fails'));
}

/**
 * The flag of one option. An option that is on by default gets a second flag (`--no-…`) that turns
 * it off.
 */
function makeOptions(flag: SchedulerFlag, value: unknown): Option[] {
  const name = flag.key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const names = (prefix: string): string =>
    flag.alias === undefined ? `${prefix}${name}` : `${prefix}${flag.alias}, ${prefix}${name}`;
  if (typeof value === 'boolean') {
    const on = new Option(names('--'), flag.help).default(value);
    // The help writes both flags in one line, `--[no-]name`.
    return value ? [on, new Option(names('--no-')).hideHelp()] : [on];
  }
  const [argument, parser] = flag.argument ?? (typeof value === 'number' ? ['n', parse.integer] : ['name']);
  const option = new Option(`${names('--')} <${argument}>`, flag.help);
  if (parser !== undefined) option.argParser(parser);
  if (flag.choices !== undefined) option.choices(flag.choices);
  return [flag.lateDefault ? option : option.default(value)];
}

/** The scheduler options of a parsed command line. */
export function schedulerOptions(values: Record<string, unknown>): SchedulerOptions {
  const options: Record<string, unknown> = {};
  for (const { key } of FLAGS) if (values[key] !== undefined) options[key] = values[key];
  if (values['deviations'] === false) options['deviations'] = false;
  return options as unknown as SchedulerOptions;
}

/**
 * Like `schedulerOptions`. The room of a profile in tokens (null: unknown) sets the number of
 * blocks, unless the user does.
 */
export function optionsWithRoom(command: Command, kvTokens: number | null): SchedulerOptions {
  const options = schedulerOptions(command.opts());
  if (kvTokens === null || command.getOptionValueSource('numBlocks') === 'cli') return options;
  return { ...options, numBlocks: Math.floor(kvTokens / (options.blockSize ?? 16)) };
}
