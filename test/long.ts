// `npm run test:long`: the proofs in their full size.
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';

/** Proofs in their full size, by name. `npm test` and CI have a fixed small share of each. */
const PROOFS: Readonly<Record<string, { what: string; command: string }>> = {
  sim: {
    what: '20,000 seeds of both simulations, 2,000 steps each; --first S for others',
    command: `tsx test/sim/main.ts --seeds 20000 --steps 2000 --jobs ${cpus().length}`,
  },
  pipelines: {
    what: '20,000 seeds of the simulation of pipelines, 400 steps each; --first S for others',
    command: `tsx test/sim/main.ts --loop pipeline --seeds 20000 --steps 400 --jobs ${cpus().length}`,
  },
  plants: {
    what: 'every bug planted into the source, and after how many seeds the simulations find it',
    command: `tsx test/sim/main.ts --plants --seeds 2000 --jobs ${cpus().length}`,
  },
  guards: {
    what: 'every guard taken out of the source, and whether the tests of its failure see it',
    command: 'tsx test/guards/mutate.ts',
  },
  executors: {
    what: 'an executor by a stranger, in 10,000 random configurations, against an unpaged computation; --first S for others',
    command: 'tsx test/executors/proof/main.ts',
  },
  offload: {
    what: 'an hour of virtual traffic through an offload, with 30 % aborts, at each depth; --seconds N, --seed S',
    command: 'tsx test/connectors/offload/long.ts',
  },
  lease: {
    what: 'engines in four processes that hand KV over, 200 times one of them is killed or stopped; --seed S for others',
    command: 'tsx test/connectors/lease/process/main.ts',
  },
  connectors: {
    what: 'the conformance suite over every connector, 1,000 seeds of each case; --first S for others',
    command: 'tsx test/testing/long.ts',
  },
  llama: {
    what: 'random engines over llama.cpp, 40 seeds of each configuration, every token that of the model alone; --first S for others',
    command: 'tsx test/executors/llama-cpp/equality/long.ts',
  },
  pipeline: {
    what: 'a pipeline over Redis in processes that are killed, stopped and emptied, 60 times; BLOCKSTEP_PIPELINE_SEED=S for others',
    command: 'BLOCKSTEP_PIPELINE_KILLS=60 vitest run --config test/vitest.config.ts test/pipeline/process',
  },
  threads: {
    what: 'workers with schedulers, engines or lanes at work that are terminated, a hundred times each',
    command:
      'BLOCKSTEP_TERMINATIONS=100 vitest run --config test/vitest.config.ts --testTimeout 600000 test/engine/misuse/lifetime test/transfer/lifetime test/misuse/lifetime',
  },
  gyp: {
    what: 'the addon as node-gyp builds it, with a compiler alone',
    command: 'BLOCKSTEP_TEST_GYP=1 vitest run --config test/vitest.config.ts test/core/gyp.test.ts',
  },
  matrix: {
    what: 'pipelines with a borrowing adapter: 10,000 requests, 64 at a time, half of them aborted, five seeds; --first S',
    command: 'tsx test/pipeline/matrix/long.ts',
  },
  suites: {
    what: 'the suites of which npm test runs a share, whole',
    command: 'BLOCKSTEP_TEST_SIZE=whole vitest run --config test/vitest.config.ts --testTimeout 600000',
  },
  native: {
    what: 'the native tests in their full size',
    command: 'bash native/test/run.sh --long',
  },
  strangers: {
    what: 'ten minutes of 200 connections with hostile texts of up to 8 MB: /health below 100 ms at p99; --seconds N, --model FILE',
    command: 'tsx test/serve/strangers/long.ts',
  },
  store: {
    what: 'writers of a slot file that are killed in the middle, 200 times',
    command:
      'BLOCKSTEP_STORE_KILLS=200 vitest run --config test/vitest.config.ts test/connectors/store/slots-faults.test.ts',
  },
};

const [name = '', ...rest] = process.argv.slice(2);
const usage = [
  'npm run test:long -- NAME [options], with NAME one of',
  ...Object.entries(PROOFS).map(([each, { what }]) => `  ${each.padEnd(10)}${what}`),
  'Options are those of the program behind the name: npm run test:long -- NAME --help.',
].join('\n');
if (name === '--help' || name === '-h') {
  console.log(usage);
  process.exit(0);
}
const proof = Object.hasOwn(PROOFS, name) ? PROOFS[name] : undefined;
if (proof === undefined) {
  console.error(`no proof ${JSON.stringify(name)}; ${usage}`);
  process.exit(2);
}
const { status } = spawnSync([proof.command, ...rest].join(' '), { shell: true, stdio: 'inherit' });
process.exit(status ?? 1);
