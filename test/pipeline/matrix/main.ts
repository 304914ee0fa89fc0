// `npm run matrix`.
import { parseArgs } from 'node:util';
import { printTable, runHangs, runTable, sayHangs } from './tables.js';
import { AS_REPORTED, OURS, OWN, type Variant } from './variants.js';

const USAGE = `npm run matrix -- [options]
The verification matrix of pipelines: three stages, requests and aborts in virtual time.
  --seed S         decides when chunks and aborts arrive (default 3)
  --seqs N         maxNumSeqs of each stage (default 8)
  --text-chunks N  most chunks that the first stage cuts its answer into (default 1)
  --short          answers so short that the second stage may be done when the second chunk comes out`;

function whole(name: string, value: string, least: number): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < least || number > 4096)
    throw new Error(`--${name} takes a whole number from ${least} to 4096, got ${value}`);
  return number;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '3' },
      seqs: { type: 'string', default: '8' },
      'text-chunks': { type: 'string', default: '1' },
      short: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const seed = whole('seed', values.seed, 0);
  const maxNumSeqs = whole('seqs', values.seqs, 1);
  const textChunks = whole('text-chunks', values['text-chunks'], 1);
  const shapes = { textChunks, shortAnswers: values.short };
  const options = { ...shapes, seed, maxNumSeqs };

  console.log('(1) As reported: a borrowing adapter, and a finish that goes by status');
  console.log(printTable(await runTable(AS_REPORTED, options)));
  const skipping = AS_REPORTED.find(({ name }) => name === 'get and skip') as Variant;
  for (const { maxNumSeqs: width, hung } of await runHangs(skipping, [3, 8, 13], [1, 2, 3, 4, 5], shapes))
    console.log(sayHangs(width, hung));

  console.log('\n(2) Ours, with the same borrowing adapter: removal by membership');
  const ours = await runTable(OURS, options);
  console.log(printTable(ours));

  console.log('\n(3) Our own pipeline: nothing is borrowed');
  const own = await runTable(OWN, options);
  console.log(printTable(own));
  return [...ours, ...own].every(({ rows }) => rows.every(({ complete }) => complete)) ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(`${(error as Error).message}\n\n${USAGE}`);
  process.exitCode = 2;
}
