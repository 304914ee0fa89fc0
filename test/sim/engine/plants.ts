import type { Plant } from '../plants.js';

const WORKERS = 'src/engine/workers.ts';
const LOOP = 'src/engine/step-loop.ts';

/** Guards of the engine's loop, taken out. The simulation of the engine must miss each. */
export const ENGINE_PLANTS: readonly Plant[] = [
  {
    name: 'mustWait',
    why: 'a step that takes released blocks, or loads synchronously, does not wait for the steps before it',
    file: WORKERS,
    text: 'return hasSyncLoads || this.#released.length > 0;',
    replacement: 'return hasSyncLoads && this.#released.length < 0;',
  },
  {
    name: 'mustWaitReleased',
    why: 'a step that takes released blocks does not wait for the steps before it',
    file: WORKERS,
    text: 'return hasSyncLoads || this.#released.length > 0;',
    replacement: 'return hasSyncLoads;',
  },
  {
    name: 'releasedDropped',
    why: 'an empty plan behind a step in flight forgets who lost blocks',
    file: WORKERS,
    text: 'if (released.length > 0) this.#released = [];',
    replacement: 'this.#released = [];',
  },
  {
    name: 'releasedUntold',
    why: 'sessions and waiting loads that lose their blocks are not told of',
    file: 'src/scheduler/preempt.ts',
    text: 'if (s.connector !== null) s.releasedHandles.push(request.handle);',
    replacement:
      'if (s.connector !== null && request.container === null) s.releasedHandles.push(request.handle);',
  },
  {
    name: 'releasedAgain',
    why: 'who lost blocks is told again in every plan',
    file: WORKERS,
    text: 'if (released.length > 0) this.#released = [];',
    replacement: '',
  },
  {
    name: 'notBefore',
    why: 'a load may write while the steps in flight still write the same blocks',
    file: WORKERS,
    text: 'notBefore: step - 1',
    replacement: 'notBefore: -1',
  },
  {
    name: 'settledEarly',
    why: 'an empty step settles those in flight',
    file: LOOP,
    text: 'if (e.flight.length === 0) e.workers?.settle(plan.step);',
    replacement: 'e.workers?.settle(plan.step);',
  },
  {
    name: 'behindKeptBack',
    why: 'steps are scheduled behind one that is kept back',
    file: LOOP,
    text: "    if (inFlight > 0 && flight[inFlight - 1].state === 'kept back') return false;\n",
    replacement: '',
  },
  {
    name: 'askedWithStepsOnly',
    why: 'workers are asked only where a step was executed',
    file: LOOP,
    text: '    if (e.workers !== null) this.#takeTransfers();\n',
    replacement:
      '    if (e.workers !== null && plan !== null && plan.totalTokens > 0) this.#takeTransfers();\n',
  },
  {
    name: 'workerThrows',
    why: 'an exception of a worker goes through',
    file: WORKERS,
    text: '      this.#e.countWorkerFailure(rank, method, error);\n      return false;',
    replacement: '      this.#e.countWorkerFailure(rank, method, error);\n      throw error;',
  },
  {
    name: 'lostLoads',
    why: 'loads that a worker failed to begin count as begun',
    file: WORKERS,
    text: 'if (!begun) this.#lose(plan, rank);',
    replacement: 'void begun;',
  },
  {
    name: 'drainIsNoWork',
    why: 'what drains is no work',
    file: 'src/scheduler/inspection.ts',
    text: 'unreported + s.draining.size > 0',
    replacement: 'unreported > 0',
  },
  {
    name: 'quarantineIsWork',
    why: 'quarantine is work for ever',
    file: 'src/scheduler/inspection.ts',
    text: 'unreported + s.draining.size > 0',
    replacement: 'unreported + s.draining.size + s.quarantined.size > 0',
  },
  {
    name: 'pendingIsNoWork',
    why: 'the connector is not asked for work of its own',
    file: 'src/scheduler/inspection.ts',
    text: 'return askPendingWork(s);',
    replacement: 'return askPendingWork(s) && s.step < 0;',
  },
  {
    name: 'loadingIsNoWork',
    why: 'what loads is no work',
    file: 'src/scheduler/inspection.ts',
    text: 'queues.skipped.length + queues.loading.size;',
    replacement: 'queues.skipped.length;',
  },
  {
    name: 'failedLoadSucceeds',
    why: 'what stopped on a load that failed counts as a success',
    file: 'src/scheduler/load-failure.ts',
    text: '    dropOutputs(s, request, plan);\n    request.numDraftTokens = 0;',
    replacement: '    request.numDraftTokens = 0;',
  },
  {
    name: 'unknownThrows',
    why: 'a report for nobody throws',
    file: 'src/scheduler/guards.ts',
    text: "  if (request !== undefined) return request;\n  s.anomalies.report(\n    'stale-handle',",
    replacement:
      "  if (request !== undefined) return request;\n  if (handle > 0) throw new Error('for nobody');\n  s.anomalies.report(\n    'stale-handle',",
  },
  {
    name: 'abortsOnce',
    why: 'aborts that came while a step ran are not carried out before its update',
    file: LOOP,
    text: '      this.#ended += drainAborts(e);\n      this.#takeOldest(e.flight[0]);',
    replacement: '      this.#takeOldest(e.flight[0]);',
  },
  {
    name: 'liveTokens',
    why: 'the tokens of a step that is kept back are read when it is executed',
    file: 'src/engine/step.ts',
    text: 'if (this.#tables !== null) this.#tables = keepTables(this.plan, this.#tables, core);',
    replacement: 'void core; void keepTables;',
  },
];
