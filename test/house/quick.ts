// Suites are quick in `npm test`, by times from a quiet machine.
import type { Tree } from './tree.js';

/** How long suites took in `npm test` on a quiet machine, as `npm run test:full -- --seconds` wrote it down. */
export const SECONDS_FILE = 'test/house/seconds.json';

/** Most seconds of a suite in `npm test`. */
const MOST_SECONDS = 4;

/** Suites that take longer, and why they do. */
const SLOW: Readonly<Record<string, string>> = {
  'test/bench/peers.test.ts': 'plays schedulers in some twenty processes',
  'test/cli/log.test.ts': 'logs of whole replays run again, each cut and damaged at many places',
  'test/cli/program.test.ts': 'starts the command in some forty processes',
  'test/connectors/multi/together.test.ts':
    'several connectors at once, each with threads and engines of its own',
  'test/connectors/offload/disk-groups.test.ts':
    'opens a store on disk for each case, in a process of its own',
  'test/connectors/offload/disk.test.ts': 'opens a store on disk for each case, in a process of its own',
  'test/connectors/offload/tiers/disk-waits.test.ts':
    'opens a store on disk for each case, in a process of its own',
  'test/docs/programs.test.ts': 'runs the programs of the docs as their readers would',
  'test/executors/llama-cpp/equality/equality.test.ts': 'computes real models twice',
  'test/parity/parity.test.ts': 'every recorded trace of the real scheduler',
  'test/parity/reference/rules/random-rules.test.ts':
    'rules of a version of vLLM with random workloads that need them',
  'test/pipeline/matrix/matrix.test.ts': 'the verification matrix of pipelines',
  'test/pipeline/redis/faults.test.ts': 'waits for servers that are stopped and come again',
  'test/pipeline/redis/guards.test.ts': 'a server of its own for each guard',
  'test/scheduler/connector/connector.test.ts': 'compiles connectors with the compiler of TypeScript',
  'test/scheduler/steady/twins.test.ts': 'lives of two schedulers in step, of thirteen kinds',
  'test/serve/half-closed.test.ts': 'waits for probes of half-closed connections, half a second apart',
  'test/sim/scheduler/simulation.test.ts': 'simulated lives of 2,000 steps',
};

/** No suite takes long in `npm test`, except suites that are named with a reason. */
export function suitesAreQuick(tree: Tree, slow = SLOW): string[] {
  const seconds = JSON.parse(tree.text(SECONDS_FILE)) as Record<string, number>;
  const long = Object.entries(seconds).filter(([, each]) => each > MOST_SECONDS);
  const faults = long
    .filter(([path]) => !Object.hasOwn(slow, path))
    .map(
      ([path, each]) =>
        `${path} takes ${each} s in npm test, at most ${MOST_SECONDS} are allowed: give it a share (test/support/share.ts), or a reason in SLOW (test/house/quick.ts)`,
    );
  const idle = Object.keys(slow).filter((path) => !long.some(([each]) => each === path));
  return [...faults, ...idle.map((path) => `${path} is quick: take it out of SLOW (test/house/quick.ts)`)];
}
