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
  'Serves an engine over HTTP, as OpenAI’s API has it: /v1/completions and /v1/chat/completions, and a page and routes for operators beside them.';

const DETAILS = `
A model is run by llama.cpp, which comes in a package for each platform; where it
is missing the command says what to install. All flags of the scheduler are chosen
to suit the model and the memory, unless they are given.

Executors: "reference" really keeps its KV memory, and is no language model: a
text goes on as it went on before. "simulated" is a stand-in for a server on a
GPU: it decides what vLLM decides, takes the time that a cost model says, and
makes texts up. A module of your own has a default export that is called with
{ options, vocabulary } and gives { executor, model }; see docs/serving.md.

An interrupt (or SIGTERM) lets unfinished requests finish for --drain-ms; a second
one ends at once. A key is better given as BLOCKSTEP_API_KEY: what is typed can
be seen by others of this machine.

Examples (in a checkout, npm start -- in place of npx blockstep serve):
  npx blockstep serve --model model.gguf            a model that you have
  npx blockstep serve --model hf:OWNER/NAME:Q4_K_M  one from Hugging Face
  npx blockstep serve                               the reference executor
  npx blockstep serve --executor simulated --profile llama-3.1-70b-4xh100
  npx blockstep serve --executor ./my-executor.mjs`;

/** Defines the `serve` command. `onReady` is given the server once it can be started. */
export function defineServeCommand(command: Command, { io }: Invocation, onReady: (job: Job) => void): void {
  command.description(DESCRIPTION).addHelpOption(new Option('-h, --help', 'show this').helpGroup('Server:'));
  addServeFlags(command);
  command.optionsGroup('Scheduler:');
  addSchedulerFlags(command, { isServed: true });
  command.addHelpText('after', DETAILS);
  command.action(async () => {
    checkExecutorFlags(command);
    // Only who serves needs the server and its vocabulary.
    const { prepareServer } = await import('./server.js');
    onReady(await prepareServer(withDefaultBlocks(command), io));
  });
}

/** Refuses flags that would have no effect, because they belong to another executor. */
function checkExecutorFlags(command: Command): void {
  const { executor, model, profile } = command.opts<ServeFlags>();
  if (model !== undefined && command.getOptionValueSource('executor') === 'cli')
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', '--executor goes without --model only');
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
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${flag} goes with ${owner} only`);
  }
}

/** The values of all flags. How many blocks there are follows from the profile, unless the user says it. */
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
