import { type Command, Option } from 'commander';
import { type CostModel, DEFAULT_COST_MODEL } from '../engine/cost-model.js';
import { TRACE_FORMATS } from '../workload/trace.js';
import { parse } from './flag-values.js';

/** The values of replay's own flags. */
export interface ReplayFlags extends CostModel {
  format?: (typeof TRACE_FORMATS)[number];
  limit?: number;
  skipBad: boolean;
  generate: boolean;
  requests: number;
  requestRate: number;
  speedUp: number;
  abortRate: number;
  seed: number;
  acceptanceRate: number;
  json: boolean;
  report?: string;
  record?: string;
  log?: string;
}

/** Flags that say something about a trace file, and those that say something about a generated workload. */
export const FILE_FLAGS = ['format', 'limit', 'skipBad'] as const;
export const GENERATOR_FLAGS = ['generate', 'requests', 'requestRate'] as const;
/** A log brings its own options: only these go with it. */
export const LOG_FLAGS = ['log', 'json'] as const;

/** Adds the flags that say what is replayed and how it is reported. */
export function addReplayFlags(command: Command): void {
  const add = (flags: string, help: string, parser?: (text: string) => unknown, value?: unknown): void => {
    const option = new Option(flags, help);
    if (parser !== undefined) option.argParser(parser);
    command.addOption(value === undefined ? option : option.default(value));
  };
  command.addOption(
    new Option('--format <name>', 'format of FILE (default: told by its first line)').choices(TRACE_FORMATS),
  );
  add('--limit <n>', 'read only the first n requests of FILE', parse.count);
  add('--skip-bad', 'skip and count malformed lines of FILE instead of refusing it', undefined, false);
  add('--generate', 'replay a generated workload (default without FILE)', undefined, false);
  add('--requests <n>', 'requests to generate', parse.count, 2000);
  add('--request-rate <n>', 'requests a second to generate', parse.positive, 20);
  add('--speed-up <n>', 'let requests arrive n times faster', parse.positive, 1);
  add(
    '--abort-rate <share>',
    'abort this share of the requests, each at a random moment of its life',
    parse.share,
    0,
  );
  add('--seed <n>', 'seed of everything random', parse.seed, 0);
  add('--json', 'print one JSON object instead of a table', undefined, false);
  add('--report <html>', 'write a page with charts too, one file that needs no network');
  add('--record <log>', 'record every input and every decision; this counts into the time of a step');
  add('--log <log>', 'instead of a trace, run a recorded log again and say where its decisions differ');
}

/** Adds the flags of the cost model, which decides how virtual time passes. */
export function addCostModelFlags(command: Command): void {
  const add = (flags: string, help: string, parser: (text: string) => number, value: number): void => {
    command.addOption(new Option(flags, help).argParser(parser).default(value));
  };
  const model = DEFAULT_COST_MODEL;
  add('--step-overhead-ms <n>', 'host work before each step', parse.nonNegative, model.stepOverheadMs);
  add('--prefill-tokens-per-second <n>', 'speed of prefill', parse.positive, model.prefillTokensPerSecond);
  add('--weight-bytes <n>', 'weights, read by each step that decodes', parse.nonNegative, model.weightBytes);
  add('--kv-bytes-per-token <n>', 'KV cache of one token', parse.nonNegative, model.kvBytesPerToken);
  add('--memory-bytes-per-second <n>', 'memory bandwidth', parse.positive, model.memoryBytesPerSecond);
  add('--acceptance-rate <share>', 'probability that a draft token is right', parse.share, 0.7);
}
