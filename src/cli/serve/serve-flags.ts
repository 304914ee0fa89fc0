import { type Command, InvalidArgumentError, Option } from 'commander';
import { ACCEPTANCE_RATE, type CostModel } from '../../executors/cost-model/cost-model.js';
import { PROFILES } from '../../executors/cost-model/profiles.js';
import type { KvEventPublisherOptions } from '../../kv-events/index.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { flagAdder } from '../terminal/add-flag.js';
import { parse } from '../terminal/flag-values.js';
import { type ModelFlags, modelFlags } from './executor/model-flags.js';
import { parseKvEventsConfig } from './kv-events-flag.js';

/** The values of serve's own flags. */
export interface ServeFlags extends Partial<CostModel>, ModelFlags {
  executor: string;
  /** The scheduler options on the command line itself. */
  givenOptions: Partial<SchedulerOptions>;
  port: number;
  host: string;
  apiKey?: string[];
  allowedHosts?: string[];
  servedModelName?: string;
  maxQueuedRequests: number;
  drainMs: number;
  control: boolean;
  kvEventsConfig?: KvEventPublisherOptions | null;
  page: boolean;
  maxBodyBytes: number;
  logLevel: string;
  logPrompts: boolean;
  streamInterval: number;
  latencyMs: number;
  profile: string;
  meanOutputTokens: number;
  acceptanceRate: number;
  seed: number;
}

/** Flags that are only valid with `--executor simulated`, and with `reference`. */
export const SIMULATED_FLAGS = [
  'profile',
  'meanOutputTokens',
  'acceptanceRate',
  'stepOverheadMs',
  'prefillTokensPerSecond',
  'weightBytes',
  'kvBytesPerToken',
  'memoryBytesPerSecond',
] as const;
export const REFERENCE_FLAGS = ['latencyMs'] as const;

/** The levels of pino, from the fewest lines to the most. */
const LOG_LEVELS = ['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace'];

/** Adds the flags for the executor, the address and the access. */
export function addServeFlags(command: Command): void {
  const add = flagAdder(command);
  command.optionsGroup('Server:');
  add('--port <n>', 'port to listen on; if it is in use, the next free one; 0 means any', port, 8000);
  add(
    '--host <name>',
    'address to listen on; 0.0.0.0 means every address of this machine',
    undefined,
    '127.0.0.1',
  );
  command.addOption(
    new Option('--api-key <key...>', 'accepted keys; every client must send one of them').env(
      'BLOCKSTEP_API_KEY',
    ),
  );
  command.addOption(
    new Option(
      '--allowed-hosts <name...>',
      'additional host names that clients may use, besides addresses, localhost and the name of this machine',
    ),
  );
  add('--served-model-name <name>', 'the name of the model (default: that of the executor)');
  add(
    '--max-queued-requests <n>',
    'maximum number of waiting requests; further requests get 429',
    parse.count,
    1024,
  );
  add(
    '--drain-ms <n>',
    'time for unfinished requests at shutdown, in milliseconds',
    parse.nonNegative,
    30_000,
  );
  add('--max-body-bytes <n>', 'maximum size of a request’s body, in bytes', parse.count, 2 ** 23);
  command.addOption(
    new Option(
      '--log-level <name>',
      'log level on stderr; info logs one line for each request that generates text or changes something',
    )
      .choices(LOG_LEVELS)
      .default('info'),
  );
  add('--log-prompts', 'log prompts and answers too', undefined, false);
  command.addOption(
    new Option('--no-control', 'turn off the routes that pause, reset and abort for all clients'),
  );
  add('--stream-interval <n>', 'tokens in each chunk of a stream', parse.count, 1);
  add(
    '--kv-events-config <json>',
    'publish KV cache events over ZeroMQ; the keys are vLLM’s',
    parseKvEventsConfig,
  );
  command.addOption(new Option('--no-page', 'turn off the status page'));
  command.optionsGroup('Model:');
  for (const option of modelFlags()) command.addOption(option);
  command.optionsGroup('Executor:');
  add(
    '--executor <name>',
    'without --model: reference, simulated, or the path of your own module',
    undefined,
    'reference',
  );
  add('--latency-ms <n>', 'reference: milliseconds per step', parse.nonNegative, 20);
  add(
    '--profile <name>',
    `simulated: a model on GPUs: ${Object.keys(PROFILES).join(', ')}; or a profile in a file (JSON)`,
    undefined,
    'llama-3.1-8b-h100',
  );
  add('--mean-output-tokens <n>', 'simulated: average tokens per answer', parse.positive, 200);
  add(
    '--acceptance-rate <share>',
    'simulated: probability that a draft token is accepted',
    parse.share,
    ACCEPTANCE_RATE,
  );
  add(
    '--step-overhead-ms <n>',
    'simulated: host milliseconds before each step, instead of the profile’s',
    parse.nonNegative,
  );
  add('--prefill-tokens-per-second <n>', 'simulated: prompt tokens per second', parse.positive);
  add('--weight-bytes <n>', 'simulated: bytes of weights', parse.nonNegative);
  add('--kv-bytes-per-token <n>', 'simulated: bytes of KV cache per token', parse.nonNegative);
  add('--memory-bytes-per-second <n>', 'simulated: bytes read from memory per second', parse.positive);
  add('--seed <n>', 'seed of the generated texts', parse.seed, 0);
}

function port(text: string): number {
  const value = parse.integer(text);
  if (value >= 0 && value <= 65_535) return value;
  throw new InvalidArgumentError('Expected an integer from 0 to 65535.');
}
