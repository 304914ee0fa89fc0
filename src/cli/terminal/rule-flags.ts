import { type Command, Option } from 'commander';
import { RULES, type VersionRules, VLLM_VERSIONS } from '../../scheduler/options/rules.js';
import { parse } from './flag-values.js';

/** The help of each rule that differs between versions of vLLM. */
const HELP: Readonly<Record<keyof VersionRules, string>> = {
  freeOrder: 'where freed blocks without a hash are queued',
  admissionLookahead:
    'give a request slots for its drafts when it is admitted; by default on (--no-admission-lookahead)',
  watermark: 'share of the blocks that an admission leaves free while others run; by default 0',
  loadReservation:
    'load asynchronously only beside what the prompts under way still need; by default on (--no-load-reservation)',
  draftSlots: 'tokens of the budget that each scheduled request costs beside its own; by default 0',
  padDecode: 'give an admitted request of one token a row of empty drafts, for captured graphs',
  fenceFrees: 'free blocks that a step in flight may write when that step has ended',
  sessionSeats: 'which sessions take seats of --max-num-seqs',
  preemptedOutputs: 'what happens to outputs in flight of a preempted request',
  preemptedIds: 'which preempted requests a plan lists',
  grammarFailures: 'when a request whose grammar failed ends',
  windowBasis: 'by which tokens windows and states let blocks go',
  retention:
    'which windows and states the prefix cache gets: all, reachable, or those at multiples of so many tokens',
  stateLoads: 'whether a connector may load states in mode align',
  promptTails: 'publish the block in which a prompt ends, where blocks are larger than hashes',
};

const CHOICES: Readonly<Partial<Record<keyof VersionRules, readonly string[]>>> = {
  freeOrder: ['tail', 'unhashedFirst'],
  sessionSeats: ['running', 'withIdle'],
  preemptedOutputs: ['deliver', 'await', 'discard'],
  preemptedIds: ['step', 'sinceLast'],
  grammarFailures: ['schedule', 'update'],
  windowBasis: ['scheduled', 'processed'],
};

const NUMBERS: ReadonlySet<keyof VersionRules> = new Set(['watermark', 'draftSlots']);

/**
 * Adds `--like`, and a flag for each rule. The flags have no defaults, because the defaults depend
 * on the version.
 */
export function addRuleFlags(command: Command): void {
  command.addOption(
    new Option('--like <version>', 'decide by the rules of this vLLM commit, of May or August 2026').choices(
      VLLM_VERSIONS,
    ),
  );
  for (const rule of RULES) for (const option of makeOptions(rule)) command.addOption(option);
}

function makeOptions(rule: keyof VersionRules): Option[] {
  const name = rule.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const choices = CHOICES[rule];
  if (choices !== undefined) return [new Option(`--${name} <name>`, HELP[rule]).choices(choices)];
  if (rule === 'retention') return [new Option(`--${name} <tokens>`, HELP[rule]).argParser(parseRetention)];
  if (rule === 'watermark') return [new Option(`--${name} <share>`, HELP[rule]).argParser(parse.part)];
  if (NUMBERS.has(rule)) return [new Option(`--${name} <n>`, HELP[rule]).argParser(parse.integer)];
  return [new Option(`--${name}`, HELP[rule]), new Option(`--no-${name}`).hideHelp()];
}

/** An invalid value is refused together with the other options. */
function parseRetention(text: string): string | number {
  return text === 'all' || text === 'reachable' ? text : parse.integer(text);
}

/** The rules that a parsed command line names. */
export function ruleOptions(values: Record<string, unknown>): Record<string, unknown> {
  const named = ['like', ...RULES].filter((name) => values[name] !== undefined);
  return Object.fromEntries(named.map((name) => [name, values[name]]));
}
