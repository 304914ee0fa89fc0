/** `npm run bench:steps`: a decode step with each connector; `--help` says what it measures. Prints a table in Markdown. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine, readMachine } from '../machine.js';
import { answerHelp } from '../usage.js';
import { LEASE_STEPS } from './lease/steps.js';
import { MULTI_STEPS } from './multi/steps.js';
import { OFFLOAD_STEPS } from './offload/steps.js';
import { STORE_STEPS } from './store/steps.js';
import { NOTHING } from './support/nothing.js';
import { measureCase, plainCase, type StepCase, type StepCost } from './support/step-case.js';
import { printTable } from './support/table.js';

const USAGE = `npm run bench:steps -- [--pause MS] [--only WORDS] [--rounds N] [--quick]
What a decode step of 256 requests costs with each connector, idle and at work, beside an engine without one.
Every case runs in a process of its own, and the cases take turns; the round with the best median counts.
"Alike": all requests say the same, so there is hardly anything to store. "Spread": 16 new blocks are filled in every step.
  --pause MS    what passes between two steps, as if a device computed; default 1. With 0 some cases are left out, whose
                threads could not keep up
  --only WORDS  only cases whose names contain one of these, for instance offload,lease
  --rounds N    default 5
  --quick       an eighth of the steps
"Processor" is the time for which the engine's own thread ran in a step, without what it waited for a processor.`;

const CASES: readonly StepCase[] = [
  plainCase('no connector (alike)', 'alike', () => ({})),
  plainCase('no connector (spread)', 'spread', () => ({})),
  plainCase('a connector that does nothing', 'alike', () => NOTHING),
  ...OFFLOAD_STEPS,
  ...STORE_STEPS,
  ...LEASE_STEPS,
  ...MULTI_STEPS,
];

answerHelp(USAGE);
const { values } = parseArgs({
  options: {
    pause: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string', default: '5' },
    quick: { type: 'boolean', default: false },
    case: { type: 'string' },
  },
});
const pauseMs = Number(values.pause);
const share = values.quick ? 1 / 8 : 1;
const effort = { samples: 2000 * share, warmup: 1000, whole: 2000 * share, pauseMs };

/** Measures a case in a new process. */
function inProcess(index: number): Promise<StepCost> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), '--case', `${index}`]);
    let cost: StepCost | null = null;
    child.on('message', (message) => {
      cost = message as StepCost;
    });
    child.on('exit', (code) => {
      if (cost !== null) resolve(cost);
      else reject(new Error(`${CASES[index].name}: the process ended with ${code}`));
    });
  });
}

async function main(): Promise<void> {
  console.log(`${describeMachine(readMachine())}\n`);
  const words = values.only.split(',');
  const wanted = CASES.map((each, index) => ({ ...each, index }))
    .filter(({ name }, index) => index < 2 || words.some((word) => name.includes(word)))
    .filter(({ needsPause }) => !needsPause || pauseMs > 0);
  const best = new Map<string, StepCost>();
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const { name, index } of wanted) {
      const cost = await inProcess(index);
      if (cost.p50 < (best.get(name)?.p50 ?? Number.POSITIVE_INFINITY)) best.set(name, cost);
    }
  }
  const rows = wanted.map(({ name, texts }) => {
    const own = best.get(name) as StepCost;
    const base = best.get(`no connector (${texts})`) as StepCost;
    const over = (get: (cost: StepCost) => number | null): string => {
      const [mine, theirs] = [get(own), get(base)];
      return mine === null || theirs === null ? '' : (mine / theirs).toFixed(2);
    };
    const times = [own.p50, own.p90, own.mean, own.processor].map((us) => us?.toFixed(1) ?? '');
    const ratios = [over(({ p50 }) => p50), over(({ mean }) => mean), over(({ processor }) => processor)];
    return [name, ...times, ...ratios];
  });
  const head = ['p50 µs', 'p90', 'mean', 'processor', 'p50 over without', 'mean over', 'processor over'];
  printTable(['step of 256 decodes', ...head], rows, `${pauseMs} ms between two steps`);
}

if (values.case === undefined) await main();
else {
  const cost = await measureCase(CASES[Number(values.case)], effort);
  process.send?.(cost, () => process.exit(0));
}
