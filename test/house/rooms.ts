/**
 * The rooms of `src`, from the lowest to the highest. A file imports from its own room and from lower rooms, which stand before
 * it in this list. `''` is `src` itself. A folder that is not in the list belongs to no room, which is an error.
 */
export const ROOMS: readonly string[] = [
  'base',
  'base/collections',
  'base/foreign',
  'base/packages',
  'core',
  'workload',
  'report/markup',
  'report/charts',
  'report/page',
  'report',
  'scheduler/request',
  'scheduler/plan',
  'scheduler/connector',
  'scheduler/borrow',
  'scheduler/events',
  'scheduler/options',
  'scheduler/log',
  'scheduler/state',
  'scheduler/lend',
  'scheduler/inspect',
  'scheduler/life',
  'scheduler/loads',
  'scheduler/schedule',
  'scheduler/update',
  'scheduler/device',
  'scheduler/calls',
  'scheduler',
  'scheduler/replay',
  'transfer',
  'engine/executor',
  'engine/workers',
  'engine/streams',
  'engine/state',
  'engine/requests',
  'engine/inspect',
  'engine/loop',
  'engine',
  'executors/cost-model',
  'executors/reference',
  'connectors/base',
  'connectors/store/stores',
  'connectors/store/embedded',
  'connectors/store/client',
  'connectors/store/scheduler',
  'connectors/store/worker',
  'connectors/store',
  'connectors/offload',
  'connectors/lease/link',
  'connectors/lease/wire',
  'connectors/lease/producer',
  'connectors/lease/consumer',
  'connectors/lease',
  'connectors/multi',
  'pipeline/time',
  'pipeline/transport',
  'pipeline/redis/wire',
  'pipeline/redis',
  'pipeline/chunks',
  'pipeline/stage',
  'pipeline/orchestrator',
  'pipeline',
  'testing/watch',
  'testing',
  'serve/text',
  'serve/api',
  'serve/reply',
  'serve/metrics',
  'serve/server',
  'serve',
  'cli/terminal',
  'cli/log',
  'cli/replay/run',
  'cli/replay/report',
  'cli/replay/page',
  'cli/replay',
  'cli/serve',
  'cli',
  '',
];

/** The rooms of `native` in their order, for `#include` as `ROOMS` is for `import`; `native/test` may include anything. */
export const NATIVE_ROOMS: readonly string[] = [
  'include',
  'core/base',
  'core/blocks',
  'core/audit',
  'core/decide',
  'core',
  'base',
  'transfer',
  'transfer/lane',
  'host/base',
  'host/tables',
  'host/device',
  'host/mirror',
  'host/events',
  'host/log',
  'host/requests',
  'host/step',
  'host/gather',
  'host/inspect',
  'host/decided',
  'host',
  'reference/sequence',
  'reference/step',
  'reference/memory',
  'reference',
  'cuda/base',
  'cuda/kernels',
  'cuda/device',
  'cuda/copies',
  'cuda/lane',
  'cuda/reference',
  'cuda',
  'addon/base',
  'addon/core',
  'addon/objects',
  'addon',
];

/**
 * The faces of the large rooms: the files that other large rooms import. A face is the room's own entrance and the nouns that
 * it speaks in; how it works stays inside. `base` shows all of its files. `src/index.ts` publishes what it likes.
 */
export const FACES: Readonly<Record<string, readonly string[]>> = {
  core: [
    'core.ts',
    'decision.ts',
    'device-tables.ts',
    'loader.ts',
    'native.ts',
    'native-reference.ts',
    'native-tables.ts',
    'native-transfer.ts',
    'package-root.ts',
    'placement.ts',
    'tables.ts',
  ],
  report: [
    'host.ts',
    'output-file.ts',
    'charts/chart.ts',
    'charts/distribution.ts',
    'charts/distribution-chart.ts',
    'charts/rate.ts',
    'charts/time-chart.ts',
    'charts/timeline.ts',
    'markup/figures.ts',
    'markup/html.ts',
    'markup/tables.ts',
    'page/library.ts',
    'page/page.ts',
    'page/tiles.ts',
  ],
  workload: ['generate.ts', 'trace.ts', 'workload.ts'],
  scheduler: [
    'scheduler.ts',
    'calls/request-names.ts',
    'calls/take-request.ts',
    'calls/token-ids.ts',
    'calls/validate.ts',
    'connector/children-error.ts',
    'connector/connector.ts',
    'connector/connector-answers.ts',
    'connector/connector-methods.ts',
    'connector/connector-output.ts',
    'connector/kv-extent.ts',
    'connector/kv-view.ts',
    'inspect/inspection.ts',
    'inspect/scheduler-facts.ts',
    'inspect/stats.ts',
    'log/log.ts',
    'log/log-reader.ts',
    'options/core-config.ts',
    'options/option-names.ts',
    'options/options.ts',
    'options/reset.ts',
    'options/resolve-options.ts',
    'plan/plan.ts',
    'plan/plan-facts.ts',
    'plan/step-outputs.ts',
    'plan/step-result.ts',
    'replay/log-replay.ts',
    'request/grammar.ts',
    'request/outstanding.ts',
    'request/request.ts',
    'request/session.ts',
    'request/status.ts',
    'request/wait.ts',
  ],
  transfer: [
    'block-arena.ts',
    'completion-queue.ts',
    'cuda-lane.ts',
    'host-lane.ts',
    'lane.ts',
    'leases.ts',
    'ranked-jobs.ts',
    'verdict.ts',
  ],
  engine: [
    'engine.ts',
    'executor/executor.ts',
    'executor/executor-limits.ts',
    'executor/input-batch.ts',
    'inspect/engine-stats.ts',
    'state/options.ts',
    'streams/outputs.ts',
    'streams/request-stream.ts',
    'streams/submission.ts',
    'streams/token-list.ts',
  ],
  executors: [
    'cost-model/cost-model.ts',
    'cost-model/cost-model-executor.ts',
    'cost-model/profiles.ts',
    'cost-model/simulated-executor.ts',
    'reference/options.ts',
    'reference/reference-executor.ts',
  ],
  cli: [],
};

/** How large a folder and a file may be. */
export interface Limit {
  readonly folder: string;
  /** Files in one folder, READMEs not counted. */
  readonly files: number;
  /** Lines of one file. */
  readonly lines: number;
}

export const LIMITS: readonly Limit[] = [
  { folder: 'src', files: 12, lines: 300 },
  { folder: 'native', files: 12, lines: 300 },
  { folder: 'bench', files: 12, lines: 300 },
  { folder: 'test', files: 20, lines: 500 },
];

/**
 * Folders whose size is not limited, with the reason. Catalogues: one file for each failure, and what is said together is
 * looked for together.
 */
export const UNLIMITED: readonly string[] = ['test/guards', 'test/misuse', 'test/parity'];

/** Files that are read by programs, not by people. */
export function isData(path: string): boolean {
  return path.includes('/fixtures/') || path.endsWith('.json') || path.endsWith('.md');
}

/** What stands in a checkout and is none of the house's: what is built, and what was measured. */
export function isForeign(path: string): boolean {
  return /(^|\/)node_modules$|^native\/build[^/]*$|^bench\/results$|\/__pycache__$/.test(path);
}
