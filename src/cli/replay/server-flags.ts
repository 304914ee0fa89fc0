import { type Command, InvalidArgumentError, Option } from 'commander';
import { flagAdder } from '../terminal/add-flag.js';
import { parse } from '../terminal/flag-values.js';
import { FIRST_TOKEN, USUAL_VOCABULARY } from './http/client/completion-body.js';
import { withoutCredentials } from './http/client/server-url.js';

/** The values of the flags of a replay over HTTP. */
export interface ServerFlags {
  url?: string;
  model?: string;
  apiKey?: string;
  concurrency?: number;
  timeoutS: number;
  ignoreEos: boolean;
  vocabularySize: number;
}

/** Flags that are only valid with `--url`. */
export const SERVER_FLAGS = [
  'model',
  'apiKey',
  'concurrency',
  'timeoutS',
  'ignoreEos',
  'vocabularySize',
] as const;

/** Adds the flags for the server and the sending of requests. */
export function addServerFlags(command: Command): void {
  const add = flagAdder(command);
  command.optionsGroup('Server:');
  add('--url <address>', 'send the requests to this server with OpenAI’s API, in real time');
  add('--model <name>', 'model to ask for (default: the first model of the server)');
  command.addOption(
    new Option('--api-key <key>', 'the key of the server; better given as BLOCKSTEP_API_KEY').env(
      'BLOCKSTEP_API_KEY',
    ),
  );
  add('--concurrency <n>', 'maximum number of concurrent requests; further requests wait', parse.count);
  add('--timeout-s <n>', 'maximum duration of a request, in seconds', timeout, 3600);
  add('--ignore-eos', 'generate answers as long as in the trace, with ignore_eos', undefined, true);
  command.addOption(new Option('--no-ignore-eos').hideHelp());
  add('--vocabulary-size <n>', 'upper bound of the token ids in prompts', vocabularySize, USUAL_VOCABULARY);
}

/** The longest time of Node's timers, in seconds. */
const LONGEST_S = Math.floor((2 ** 31 - 1) / 1000);

function timeout(text: string): number {
  const value = parse.positive(text);
  if (value <= LONGEST_S) return value;
  throw new InvalidArgumentError(`Expected a number from 0 to ${LONGEST_S}.`);
}

function vocabularySize(text: string): number {
  const value = parse.integer(text);
  if (value > FIRST_TOKEN) return value;
  throw new InvalidArgumentError(
    `Expected an integer above ${FIRST_TOKEN}: lower ids are left out of prompts.`,
  );
}

/** The printed form of a secret. */
const HIDDEN = '***';

/**
 * The words of a command line without secrets: without the key, and without the user and password
 * of the address.
 */
export function withoutSecrets(args: readonly string[]): string[] {
  return args.map((word, i) => {
    if (args[i - 1] === '--api-key') return HIDDEN;
    if (word.startsWith('--api-key=')) return `--api-key=${HIDDEN}`;
    if (args[i - 1] === '--url') return withoutCredentials(word);
    return word.startsWith('--url=') ? `--url=${withoutCredentials(word.slice('--url='.length))}` : word;
  });
}
