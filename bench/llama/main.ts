import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { writeRandomModel } from '../../test/support/gguf/random-model.js';
import { llamaForTests } from '../../test/support/llama/library.js';
import { type Contender, ours, type Setting, theirs } from './contenders.js';
import { llamaServer } from './server.js';
import { makeWorkload, WORKLOADS, type Workload } from './workloads.js';

const NAMES = Object.keys(WORKLOADS) as (keyof typeof WORKLOADS)[];
const HELP = `npm run bench:llama -- [--model FILE] [--sequences 1,4,16,64] [--workloads ${NAMES.join()}] [--pool 1,0.5] [--server FILE]

Blockstep over llama.cpp beside node-llama-cpp's own batching and llama.cpp's server: the same model, prompts and threads, in one run.
  --model FILE       a GGUF file; default: random weights in Q8_0, 28 million of them
  --sequences N,N    requests at once (default 1,4,16,64); each workload has one and a half times as many
  --workloads A,B    default: all of them
  --pool X,X         pools of blockstep, as shares of what all sequences of the longest text need (default 1,0.5)
  --server FILE      llama-server, built of the same release of llama.cpp; default: it is left out
  --rounds N         the best of so many runs counts (default 3)
  --threads N        threads of llama.cpp (default 1)

Tokens that were generated for each second of processor time, and milliseconds to the first token, both of the best round. On a machine that
others use too processor time still compares; milliseconds do not.`;

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    sequences: { type: 'string', default: '1,4,16,64' },
    workloads: { type: 'string', default: NAMES.join() },
    pool: { type: 'string', default: '1,0.5' },
    server: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
});

interface Figures {
  /** Milliseconds of processor time. */
  readonly cpu: number;
  /** Milliseconds to the first token of each request, ascending. */
  readonly firsts: readonly number[];
}

async function measure(contender: Contender, setting: Setting, { jobs }: Workload): Promise<Figures> {
  const prepared = await contender.prepare(setting);
  const used = prepared.cpu();
  const start = performance.now();
  const firsts: number[] = [];
  try {
    await prepared.run(jobs, () => firsts.push(performance.now() - start));
    return { cpu: prepared.cpu() - used, firsts: firsts.sort((a, b) => a - b) };
  } finally {
    await prepared.end();
  }
}

/** The better one of each figure: whatever else the machine does makes each of them worse. */
function better(one: Figures | undefined, other: Figures): Figures {
  if (one === undefined) return other;
  return {
    cpu: Math.min(one.cpu, other.cpu),
    firsts: one.firsts.map((first, i) => Math.min(first, other.firsts[i])),
  };
}

/** One row of a table in Markdown. `x` is the rate in shares of the best rival's. */
function row(name: string, tokens: number, { cpu, firsts }: Figures, rival: number): string {
  const at = (share: number) => firsts[Math.min(firsts.length - 1, Math.floor(share * firsts.length))];
  const times = [at(0.5), at(0.99)].map((first) => first.toFixed(0));
  return `| ${[name, ((1000 * tokens) / cpu).toFixed(0), (rival / cpu).toFixed(2), ...times].join(' | ')} |`;
}

async function compare(
  name: keyof typeof WORKLOADS,
  contenders: readonly Contender[],
  setting: Setting,
): Promise<void> {
  const workload = makeWorkload(name, 4096, setting.numSequences);
  const tokens = workload.jobs.reduce((sum, { out }) => sum + out, 0);
  const best = new Map<Contender, Figures>();
  // Round by round, so that a machine that slows down does so for all.
  for (let round = 0; round < Number(values.rounds); round++)
    for (const contender of contenders)
      best.set(contender, better(best.get(contender), await measure(contender, setting, workload)));
  const rivals = [...best].filter(([{ name: each }]) => !each.startsWith('blockstep'));
  const fastest = Math.min(...rivals.map(([, { cpu }]) => cpu));
  const { numSequences, threads } = setting;
  console.log(
    `\n${workload.name}, ${numSequences} at once, ${workload.jobs.length} requests, ${threads} threads\n`,
  );
  console.log('| | tokens/s | x best | first p50, ms | p99 |\n| --- | ---: | ---: | ---: | ---: |');
  for (const [{ name: each }, figures] of best) console.log(row(each, tokens, figures, fastest));
}

async function main(): Promise<number> {
  const { folder, modules } = llamaForTests();
  if (folder === null || modules === null) return 2;
  const scratch = mkdtempSync(join(tmpdir(), 'blockstep-bench-'));
  const path = values.model ?? join(scratch, 'random.gguf');
  if (values.model === undefined)
    writeRandomModel(path, {
      weights: 'Q8_0',
      width: 512,
      layers: 8,
      heads: 8,
      kvHeads: 4,
      feedForward: 1408,
      numTokens: 4096,
    });
  const numbers = (list: string) => list.split(',').map(Number);
  const threads = Number(values.threads);
  const contenders = [
    ...(await ours(path, folder, numbers(values.pool))),
    ...(await theirs(path, modules, threads)),
    ...(values.server === undefined ? [] : [llamaServer(path, values.server)]),
  ];
  console.log(`load of the machine: ${loadavg()[0].toFixed(1)}`);
  for (const name of values.workloads.split(',') as typeof NAMES)
    for (const numSequences of numbers(values.sequences))
      await compare(name, contenders, { numSequences, threads, longest: WORKLOADS[name] });
  rmSync(scratch, { recursive: true });
  return 0;
}

if (values.help) console.log(HELP);
process.exit(values.help ? 0 : await main());
