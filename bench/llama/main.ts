// `npm run bench:llama`: blockstep over llama.cpp beside node-llama-cpp's own batching and
// llama.cpp's server.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { writeRandomModel } from '../../test/support/gguf/random-model.js';
import { llamaForTests } from '../../test/support/llama/library.js';
import { type Setting, THEIRS } from './contenders.js';
import { measureGoals } from './goals.js';
import { measure, median } from './measure.js';
import { MODELS } from './models.js';
import type { Figures, Run } from './run.js';
import { makeWorkload, WORKLOADS, type WorkloadName } from './workloads.js';

const NAMES = Object.keys(WORKLOADS) as WorkloadName[];
const HELP = `npm run bench:llama -- [--models 28m,110m,500m] [--sequences 1,4,16,64] [--workloads ${NAMES.join()}] [--threads 1,2] [--server FILE]

Blockstep over llama.cpp beside node-llama-cpp's own batching and llama.cpp's server: the same model, prompts and threads. Each run has a process
of its own; contenders take turns.
  --models A,B       random weights in Q8_0, of so many in shape (default 28m)
  --model FILE       a GGUF file in their place
  --sequences N,N    requests at once (default 1,4,16,64); most workloads have one and a half times as many
  --workloads A,B    default: all of them. full: one decode, with an empty prefix cache and with 32,768 tokens of unlike prompts in it
  --server FILE      llama-server, built of the same release of llama.cpp; default: it is left out
  --rounds N         runs of each contender (default 3)
  --threads N,N      threads of llama.cpp (default 1)
  --goals MINUTES    in place of all that: the rows of the goals, round by round, for about so long
  --all              also blockstep with half the pool, and with llama.cpp's own attention

Processor time for each token that was generated, and milliseconds to the first token: medians. x: the best rival's time in shares of the contender's, and
the least and most of that over the rounds. On a machine that others use too processor time still compares; milliseconds do not.`;

const { values } = parseArgs({
  options: {
    models: { type: 'string', default: '28m' },
    model: { type: 'string' },
    sequences: { type: 'string', default: '1,4,16,64' },
    workloads: { type: 'string', default: NAMES.join() },
    server: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '1' },
    goals: { type: 'string' },
    all: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

/** The contenders of a workload, ours first. */
function contendersOf(workload: WorkloadName): string[] {
  if (workload === 'full') return ['blockstep, full cache', 'blockstep, empty cache'];
  return [
    'blockstep',
    ...(values.all ? ['blockstep, half the pool', "blockstep, llama.cpp's own attention"] : []),
    ...THEIRS,
    ...(values.server === undefined ? [] : ['llama-server']),
  ];
}

/** Prints a table in Markdown of all contenders. */
function compare(
  workload: WorkloadName,
  setting: Setting,
  run: Omit<Run, 'contender' | 'workload' | 'setting'>,
): void {
  const contenders = contendersOf(workload);
  const made = makeWorkload(workload, 4096, setting.numSequences);
  const tokens = made.jobs.reduce((sum, { out }) => sum + out, 0);
  const rounds = contenders.map((): Figures[] => []);
  // Round by round, so that a machine that slows down does so for all.
  for (let round = 0; round < Number(values.rounds); round++)
    for (const [i, contender] of contenders.entries())
      rounds[i].push(measure({ ...run, contender, workload, setting }));
  const isRival = contenders.map((name) => !name.startsWith('blockstep') || name.endsWith('empty cache'));
  const cpuOf = (i: number): number => median(rounds[i].map(({ cpu }) => cpu));
  const rivals = rounds.filter((_, i) => isRival[i]);
  const best = Math.min(...rivals.map((own) => median(own.map(({ cpu }) => cpu))));
  const { numSequences, threads } = setting;
  console.log(
    `\n${made.name}, ${numSequences} at once, ${made.jobs.length} requests, ${threads} threads; load ${loadavg()[0].toFixed(0)}\n`,
  );
  console.log(
    '| | ms a token | x | least, most | first p50, ms | p99 |\n| --- | ---: | ---: | --- | ---: | ---: |',
  );
  for (const [i, name] of contenders.entries()) {
    const each = rounds[i].map(({ cpu }, round) => Math.min(...rivals.map((own) => own[round].cpu)) / cpu);
    const first = (share: number): string =>
      median(
        rounds[i].map(({ firsts }) => firsts[Math.min(firsts.length - 1, Math.floor(share * firsts.length))]),
      ).toFixed(0);
    const spread = `${Math.min(...each).toFixed(2)}, ${Math.max(...each).toFixed(2)}`;
    const cells = [
      name,
      (cpuOf(i) / tokens).toFixed(2),
      (best / cpuOf(i)).toFixed(2),
      spread,
      first(0.5),
      first(0.99),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}

function main(): number {
  const { folder, modules } = llamaForTests();
  if (folder === null || modules === null) return 2;
  const scratch = mkdtempSync(join(tmpdir(), 'blockstep-bench-'));
  if (values.goals !== undefined) {
    // A large model takes long to be written, and may have no turn.
    const pathOf = (name: string): string => {
      const path = join(scratch, `${name}.gguf`);
      if (!existsSync(path)) writeRandomModel(path, MODELS[name]);
      return path;
    };
    measureGoals(Number(values.goals), pathOf, { folder, modules, server: values.server ?? null });
    rmSync(scratch, { recursive: true });
    return 0;
  }
  const numbers = (list: string) => list.split(',').map(Number);
  for (const name of values.model === undefined ? values.models.split(',') : ['']) {
    const path = values.model ?? join(scratch, `${name}.gguf`);
    if (values.model === undefined) writeRandomModel(path, MODELS[name]);
    console.log(`\n## ${values.model ?? name}`);
    for (const workload of values.workloads.split(',') as WorkloadName[])
      for (const numSequences of workload === 'full' ? [1] : numbers(values.sequences))
        for (const threads of numbers(values.threads)) {
          const setting = { numSequences, threads, longest: WORKLOADS[workload] };
          compare(workload, setting, { model: path, folder, modules, server: values.server ?? null });
        }
  }
  rmSync(scratch, { recursive: true });
  return 0;
}

if (values.help) console.log(HELP);
process.exit(values.help ? 0 : main());
