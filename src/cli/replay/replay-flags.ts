import { type Command, Option } from 'commander';
import {
  ACCEPTANCE_RATE,
  type CostModel,
  DEFAULT_COST_MODEL,
} from '../../executors/cost-model/cost-model.js';
import { TRACE_FORMATS } from '../../workload/trace.js';
import { flagAdder } from '../terminal/add-flag.js';
import { parse } from '../terminal/flag-values.js';
import type { ServerFlags } from './server-flags.js';

/** The values of replay's own flags. */
export interface ReplayFlags extends CostModel, ServerFlags {
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
  profile?: string;
  json: boolean;
  report?: string;
  record?: string;
  log?: string;
}

/** Flags of a trace file, and flags of a generated workload. */
export const FILE_FLAGS = ['format', 'limit', 'skipBad'] as const;
export const GENERATOR_FLAGS = ['generate', 'requests', 'requestRate'] as const;
/**
 * Flags that determine which requests arrive when, and which are aborted. They are also valid with
 * a server.
 */
export const WORKLOAD_FLAGS = [...FILE_FLAGS, ...GENERATOR_FLAGS, 'speedUp', 'abortRate', 'seed'] as const;
/** The figures of the cost model, which a profile replaces. */
export const FIGURE_FLAGS = Object.keys(DEFAULT_COST_MODEL);
/** A log contains its own options, so only these flags go with `--log`. */
export const LOG_FLAGS = ['log', 'json'] as const;

/** Adds the flags for input and output. */
export function addReplayFlags(command: Command): void {
  const add = flagAdder(command);
  command.optionsGroup('Workload:');
  command.addOption(
    new Option('--format <name>', 'format of FILE; by default read from its first line').choices(
      TRACE_FORMATS,
    ),
  );
  add('--limit <n>', 'replay only the first n requests of FILE', parse.count);
  add('--skip-bad', 'skip and count malformed lines of FILE instead of refusing it', undefined, false);
  add('--generate', 'generate requests; this is the default without a FILE', undefined, false);
  add('--requests <n>', 'number of requests to generate', parse.count, 2000);
  add('--request-rate <n>', 'mean arrival rate of generated requests, per second', parse.positive, 20);
  add('--speed-up <n>', 'factor by which requests arrive faster', parse.positive, 1);
  add('--abort-rate <share>', 'share of requests that are aborted at a random time', parse.share, 0);
  add('--seed <n>', 'seed of all random choices', parse.seed, 0);
  command.optionsGroup('Output:');
  add('--json', 'print one JSON object instead of tables', undefined, false);
  add('--report <page>', 'also write an HTML page with charts: one file that needs no network');
  add('--record <log>', 'record every input and decision; step times then include recording');
  add('--log <log>', 'run a recorded log again instead of a workload, and print where decisions differ');
}

/** Adds the flags of the cost model, which determines the virtual time of a step. */
export function addCostModelFlags(command: Command): void {
  const add = flagAdder(command);
  const model = DEFAULT_COST_MODEL;
  add(
    '--step-overhead-ms <n>',
    'milliseconds of host work before a step',
    parse.nonNegative,
    model.stepOverheadMs,
  );
  add(
    '--prefill-tokens-per-second <n>',
    'prompt tokens computed per second',
    parse.positive,
    model.prefillTokensPerSecond,
  );
  add(
    '--weight-bytes <n>',
    'bytes of weights; every step that decodes reads them all',
    parse.nonNegative,
    model.weightBytes,
  );
  add('--kv-bytes-per-token <n>', 'bytes of KV cache per token', parse.nonNegative, model.kvBytesPerToken);
  add(
    '--memory-bytes-per-second <n>',
    'bytes that the GPU reads from memory per second',
    parse.positive,
    model.memoryBytesPerSecond,
  );
  add(
    '--profile <name>',
    'profile of a model on GPUs, in place of the figures above: a file (JSON), or the name of a profile that serve has',
  );
  add(
    '--acceptance-rate <share>',
    'probability that a draft token is accepted',
    parse.share,
    ACCEPTANCE_RATE,
  );
}
