// The proofs: their suites, and their further inputs.

/**
 * A proof that a change elsewhere does not need: of a tool of the tests, or one that is long. `npm run test:full` runs each, `.ci/run` those
 * whose inputs have changed since it was last seen to hold (`record.json`).
 */
export interface Proof {
  /** The proven claim. */
  readonly what: string;
  /** Its suites: files, or folders with a slash at their end. None: it is a command of `.ci/run`. */
  readonly suites: readonly string[];
  /** Whether `npm test` leaves its suites out; else it runs a share of them. */
  readonly isApart: boolean;
  /**
   * Its inputs beside its suites and their imports: files and folders that it reads, starts or
   * compiles.
   */
  readonly beside: readonly string[];
}

/** The rooms of the native core that an addon on the host is built of. */
const ADDON = ['base', 'core', 'transfer', 'host', 'reference', 'include', 'addon'].map(
  (room) => `native/${room}/`,
);
/** The files that build the addon. */
const BUILD = ['native/CMakeLists.txt', 'native/package.json', 'native/tools/'];
const HOST = [...ADDON, ...BUILD];

export const PROOFS = {
  oracle: {
    what: 'the reference scheduler decides what vLLM decides, and the comparison of traces notices every wrong field',
    suites: [
      'test/parity/bite.test.ts',
      'test/parity/main.test.ts',
      'test/parity/reference/groups.test.ts',
      'test/parity/reference/reference.test.ts',
    ],
    isApart: true,
    beside: [...HOST, 'test/parity/fixtures/', 'test/parity/reference/fixtures/', 'test/parity/main.ts'],
  },
  plants: {
    what: 'the conformance suite and the reference executor find the bugs that are planted for them',
    suites: [
      'test/testing/plants.test.ts',
      'test/executors/reference/planted.test.ts',
      'test/executors/reference/groups/planted.test.ts',
    ],
    isApart: true,
    beside: HOST,
  },
  simulators: {
    what: 'the simulators find planted bugs, and their command tells how to see one again',
    suites: ['test/sim/'],
    isApart: false,
    beside: HOST,
  },
  'emulated-gpu': {
    what: 'everything that needs a GPU, on an emulated one',
    suites: ['test/cuda/'],
    isApart: true,
    beside: [...HOST, 'native/cuda/', 'native/test/gpu_shim/'],
  },
  pages: {
    what: 'the pages of the server and of reports in a headless browser',
    suites: ['test/serve/browser/', 'test/report/browser/'],
    isApart: true,
    beside: [...HOST, 'src/serve/page/', 'src/report/'],
  },
  processes: {
    what: 'processes and threads that are killed in the middle of what they do, files that are damaged, servers in trouble',
    suites: [
      'test/pipeline/process/',
      'test/pipeline/redis/tls.test.ts',
      'test/connectors/ends.test.ts',
      'test/connectors/lease/kills.test.ts',
      'test/connectors/offload/disk-kills.test.ts',
      'test/connectors/store/ends.test.ts',
      'test/connectors/store/redis-faults.test.ts',
      'test/connectors/store/redis-tls.test.ts',
      'test/connectors/store/slots-faults.test.ts',
      'test/connectors/store/thread-death.test.ts',
      'test/engine/misuse/lifetime.test.ts',
      'test/engine/misuse/unfinished.test.ts',
      'test/executors/llama-cpp/lifetime.test.ts',
      'test/transfer/lifetime.test.ts',
    ],
    isApart: true,
    beside: [...HOST, 'native/llama/', 'test/support/', 'test/connectors/'],
  },
  native: {
    what: 'the native tests: npm run test:native',
    suites: [],
    isApart: true,
    beside: [...HOST, 'native/cuda/', 'native/test/'],
  },
  release: {
    what: 'the addon of a release: it loads elsewhere, no kernel spills, and its test for a GPU compiles',
    suites: [],
    isApart: true,
    beside: [...HOST, 'native/cuda/', 'native/llama/', 'native/test/gpu/'],
  },
  bundle: {
    what: 'the bundle for GPU hosts, as it is used there, on the emulated GPU',
    suites: [],
    isApart: true,
    beside: [
      ...HOST,
      'native/cuda/',
      'native/test/',
      'bench/',
      'src/',
      'package.json',
      'test/vitest.config.ts',
    ],
  },
} satisfies Record<string, Proof>;

export type ProofName = keyof typeof PROOFS;

/** Suites that `npm test` leaves out. */
export function suitesApart(): string[] {
  return Object.values<Proof>(PROOFS).flatMap(({ isApart, suites }) => (isApart ? suites : []));
}
