import type { Mutation } from './mutation.js';

const test = 'test/guards/engine-transfers.test.ts';
const inFlight = 'test/guards/steps-in-flight.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F29',
    file: 'src/scheduler/inspect/inspection.ts',
    find: 'unreported + s.draining.size > 0',
    replace: 'unreported > 0',
    test,
    means: 'what drains is no work',
  },
  {
    failure: 'F29',
    file: 'src/scheduler/inspect/inspection.ts',
    find: 'unreported + s.draining.size > 0',
    replace: 'unreported + s.draining.size + s.quarantined.size > 0',
    test,
    means: 'quarantine is work for ever',
  },
  {
    failure: 'F29',
    file: 'src/scheduler/inspect/inspection.ts',
    find: 'return s.connector?.askPendingWork() === true;',
    replace: 'return s.connector?.askPendingWork() === true && s.step < 0;',
    test,
    means: 'the connector is not asked for work of its own',
  },
  {
    failure: 'F29',
    file: 'src/engine/loop/step-loop.ts',
    find: '    if (e.workers !== null) this.#handOverReports();\n',
    replace:
      '      if (e.workers !== null && plan !== null && plan.totalTokens > 0) this.#handOverReports();\n',
    also: [
      {
        file: 'src/engine/loop/step-loop.ts',
        find: 'else this.#applyEmpty(plan, !willApply);',
        replace: 'else this.#applyEmpty(plan, false);',
      },
    ],
    test,
    means: 'workers are asked only with a step',
  },
  {
    failure: 'F30',
    file: 'src/engine/loop/run-loop.ts',
    find: "if (state === 'stalled' || (state === 'waiting' && this.#mayUnblock())) delay = BACKOFF_MS;",
    replace: "if (state === 'waiting' && this.#mayUnblock()) delay = BACKOFF_MS;",
    test: 'test/engine/loop/run-loop.test.ts',
    means: 'an engine that can schedule nothing sleeps',
  },
  {
    failure: 'F30',
    file: 'src/scheduler/inspect/inspection.ts',
    find: 'const apart = queues.loading.size + queues.deferred.size;',
    replace: 'const apart = queues.deferred.size;',
    test,
    means: 'what loads is no work',
  },
  {
    failure: 'F38',
    file: 'src/engine/workers/workers.ts',
    find: 'notBefore: this.#owesReuse ? step : step - 1',
    replace: 'notBefore: -1',
    test: inFlight,
    means: 'a load may write at once',
  },
  {
    failure: 'F38',
    file: 'src/engine/loop/step-loop.ts',
    find: '|| e.workers?.mustWait(plan) === true;',
    replace: '|| e.workers?.mustWait(plan) === undefined;',
    test: inFlight,
    means: 'a step with synchronous loads is not kept back',
  },
  {
    failure: 'F38',
    file: 'src/engine/loop/step-loop.ts',
    find: 'if (e.flight.length === 0) e.workers?.settle(plan.step);',
    replace: 'e.workers?.settle(plan.step);',
    test: inFlight,
    means: 'an empty step settles those in flight',
  },
  {
    failure: 'F38',
    file: 'src/engine/loop/step-loop.ts',
    find: "    if (inFlight > 0 && flight[inFlight - 1].state === 'kept back') return false;\n",
    replace: '',
    test: inFlight,
    means: 'steps are scheduled behind one that is kept back',
  },
  {
    failure: 'F58',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '    dropOutputs(s, request, plan);\n',
    replace: '',
    test,
    means: 'what stopped on a load that failed counts as a success',
  },
  {
    failure: 'F58',
    file: 'src/scheduler/life/finish.ts',
    find: '  if (request.isFinished) return false;\n  s.queues.detach(request);',
    replace: '  s.queues.detach(request);',
    also: [
      {
        file: 'src/scheduler/life/finish.ts',
        find: 'const live = Array.from(requests).filter((request) => !request.isFinished);',
        replace: 'const live = Array.from(requests);',
      },
      {
        file: 'src/scheduler/life/abort.ts',
        find: 'return !request.isFinished || (isC',
        replace: 'return request.slot >= 0 || (isC',
      },
      {
        file: 'src/scheduler/state/guards.ts',
        find: 'if (request?.isFinished) {\n    s.anomalies',
        replace: 'if (request?.isFinished && key < 0) {\n    s.anomalies',
      },
    ],
    test,
    means: 'the last reason wins',
  },
  {
    failure: 'F60',
    file: 'src/scheduler/state/guards.ts',
    find: '  if (request !== undefined) return request;\n  s.anomalies.report(',
    replace:
      "  if (request !== undefined) return request;\n  if (handle > 0) throw new Error('a completion for an untracked request');\n  s.anomalies.report(",
    test,
    means: 'a report for nobody throws, as in vLLM',
  },
  {
    failure: 'F60',
    file: 'src/engine/workers/workers.ts',
    find: 'this.#countFailure(rank, method, error);',
    replace: 'throw error;',
    test,
    means: 'an exception of a worker goes through',
  },
  {
    failure: 'F29',
    file: 'src/engine/state/engine-state.ts',
    find: 'this.workers?.owesEnds === true || ',
    replace: '',
    test: 'test/guards/worker-contract.test.ts',
    means: 'workers never hear of the last end if its plan had no metadata',
  },
];
