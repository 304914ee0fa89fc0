import { type Contender, ours, type Setting, THEIRS, theirs } from './contenders.js';
import { llamaServer } from './server.js';
import { makeWorkload, type WorkloadName } from './workloads.js';

/**
 * One run of a contender in a process of its own, because llama.cpp has one state for a whole
 * process.
 */
export interface Run {
  readonly contender: string;
  readonly workload: WorkloadName;
  readonly setting: Setting;
  readonly model: string;
  readonly folder: string;
  readonly modules: string;
  readonly server: string | null;
}

/** The figures of a run. */
export interface Figures {
  /** Milliseconds of processor time. */
  readonly cpu: number;
  /** Milliseconds to the first token of each request, ascending. */
  readonly firsts: readonly number[];
}

/** Tokens of the vocabulary that prompts are made of. */
const VOCABULARY = 4096;

async function measure(run: Run): Promise<Figures> {
  const { setting, workload } = run;
  const contender = await contenderOf(run);
  const prepared = await contender.prepare(setting);
  try {
    // Code that is compiled at the first step is no matter of the workload.
    await prepared.run([{ prompt: Array.from({ length: 16 }, (_, k) => 300 + k), out: 8 }], () => {});
    const used = prepared.cpu();
    const start = performance.now();
    const firsts: number[] = [];
    const { jobs } = makeWorkload(workload, VOCABULARY, setting.numSequences);
    await prepared.run(jobs, () => firsts.push(performance.now() - start));
    return { cpu: prepared.cpu() - used, firsts: firsts.sort((a, b) => a - b) };
  } finally {
    await prepared.end();
  }
}

async function contenderOf(run: Run): Promise<Contender> {
  const { contender, model, folder, modules, server, setting } = run;
  if (contender === 'llama-server') return llamaServer(model, server as string);
  const place = THEIRS.indexOf(contender as (typeof THEIRS)[number]);
  if (place >= 0) return (await theirs(model, modules, setting.threads))[place];
  return await ours(contender, model, folder, {
    pool: contender.includes('half') ? 0.5 : 1,
    room: run.workload === 'full' ? 33_792 : 0,
    cached: contender.includes('full') ? 32_768 : 0,
    attention: contender.includes('own attention') ? 'llama' : 'auto',
  });
}

process.stdout.write(JSON.stringify(await measure(JSON.parse(process.argv[2]) as Run)));
process.exit(0);
