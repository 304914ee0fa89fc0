// The command `blockstep serve`: its help, its flags, and their combinations.
import { type Command, Option } from 'commander';
import { BlockstepError } from '../../base/errors.js';
import { DEFAULT_COST_MODEL } from '../../executors/cost-model/cost-model.js';
import { PROFILES } from '../../executors/cost-model/profiles.js';
import type { Invocation, Job } from '../terminal/io.js';
import { namedCost } from '../terminal/named-cost.js';
import { addSchedulerFlags, schedulerOptions } from '../terminal/scheduler-flags.js';
import { MODEL_FLAGS } from './executor/model-flags.js';
import { addServeFlags, REFERENCE_FLAGS, type ServeFlags, SIMULATED_FLAGS } from './serve-flags.js';

const DESCRIPTION =
  'Serves an engine over HTTP with OpenAI’s API (/v1/completions, /v1/chat/completions and more), a status page, and routes for operators.';

const DETAILS = `
llama.cpp runs the model. It comes in a package for each platform; if it is missing,
the command prints what to install. Flags of the scheduler that you leave out are
picked for the model and the memory.

Executors: "reference" uses real KV memory but is no language model: it continues a
text with text that it has already seen. "simulated" stands in for a server on a
GPU: it decides what vLLM decides, takes the time that a cost model predicts, and
makes up its texts. The default export of your own module is called with
{ options, vocabulary } and returns { executor, model }; see docs/serving.md.

An interrupt (or SIGTERM) lets unfinished requests finish for --drain-ms; a second
one stops at once. Pass a key as BLOCKSTEP_API_KEY rather than as a flag: other
users of this machine can see command lines.

Examples (in a checkout, npm start -- in place of npx blockstep serve):
  npx blockstep serve --model model.gguf            your model
  npx blockstep serve --model hf:OWNER/NAME:Q4_K_M  a model from Hugging Face
  npx blockstep serve                               the reference executor
  npx blockstep serve --executor simulated --profile llama-3.1-70b-4xh100
  npx blockstep serve --executor ./my-executor.mjs`;

/** Defines the `serve` command. `onReady` receives the server once it can be started. */
export function defineServeCommand(command: Command, { io }: Invocation, onReady: (job: Job) => void): void {
  command.description(DESCRIPTION).addHelpOption(new Option('-h, --help', 'show this').helpGroup('Server:'));
  addServeFlags(command);
  command.optionsGroup('Scheduler:');
  addSchedulerFlags(command, { isServed: true });
  command.addHelpText('after', DETAILS);
  command.action(async () => {
    checkExecutorFlags(command);
    // Only this command needs the server and its vocabulary.
    const { prepareServer } = await import('./server.js');
    onReady(await prepareServer(withDefaultBlocks(command), io));
  });
}

/** Refuses flags without effect, which belong to another executor. */
function checkExecutorFlags(command: Command): void {
  const { executor, model, profile } = command.opts<ServeFlags>();
  if (model !== undefined && command.getOptionValueSource('executor') === 'cli')
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', '--executor can only be used without --model');
  const foreign = [
    ...(Object.hasOwn(PROFILES, profile)
      ? []
      : Object.keys(DEFAULT_COST_MODEL).map((name) => [name, 'a built-in --profile'] as const)),
    ...(executor === 'simulated'
      ? []
      : SIMULATED_FLAGS.map((name) => [name, '--executor simulated'] as const)),
    ...(executor === 'reference' && model === undefined
      ? []
      : REFERENCE_FLAGS.map((name) => [name, '--executor reference'] as const)),
    ...(model === undefined ? MODEL_FLAGS.map((name) => [name, '--model'] as const) : []),
  ];
  for (const [name, owner] of foreign) {
    if (command.getOptionValueSource(name) !== 'cli') continue;
    const flag = command.options.find((option) => option.attributeName() === name)!.long;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${flag} can only be used with ${owner}`);
  }
}

/**
 * The values of all flags. Unless the user sets the number of blocks, it follows from the profile.
 */
function withDefaultBlocks(command: Command): ServeFlags & Record<string, unknown> {
  const values = command.opts<ServeFlags & Record<string, unknown>>();
  const given = Object.entries(values).filter(([name]) => command.getOptionValueSource(name) === 'cli');
  const whole = { ...values, givenOptions: schedulerOptions(Object.fromEntries(given)) };
  if (values.executor !== 'simulated' || command.getOptionValueSource('numBlocks') === 'cli') return whole;
  const { kvTokens } = namedCost(values.profile);
  return kvTokens === null
    ? whole
    : { ...whole, numBlocks: Math.floor(kvTokens / Number(values['blockSize'])) };
}
