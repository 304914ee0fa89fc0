// F26, F27, F28, F59: calls of a connector and of workers.
import type { Mutation } from './mutation.js';

const test = 'test/guards/connector-calls.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F26',
    file: 'src/scheduler/life/hand-over.ts',
    find: 'if (connector === null) return;',
    replace: 'if (connector === null || request.admittedStep < 0) return;',
    test,
    means: 'the connector does not hear of what was never admitted',
  },
  {
    failure: 'F27',
    file: 'src/scheduler/life/hand-over.ts',
    find: 'if (connector === null) return;',
    replace: 'if (connector === null || s.core.blocks(request.slot).length === 0) return;',
    test,
    means: 'the connector does not hear of what holds no blocks',
  },
  {
    failure: 'F27',
    file: 'src/scheduler/loads/begin-load.ts',
    find: '    forgetRow(s, request.slot, localTokens);\n',
    replace: '',
    test,
    means: 'what was published for a load that never began stays',
  },
  {
    failure: 'F28',
    file: 'src/scheduler/connector/ask-connector.ts',
    find: '      this.#fail(request, `threw at ${question}: ${describeError(error)}`);\n',
    replace: '      throw error;\n',
    test,
    means: 'an exception of the connector goes through',
  },
  {
    failure: 'F28',
    file: 'src/scheduler/connector/connector-answers.ts',
    find: 'return isNumber && areFlags && !(isAsync && numTokens === 0) && isChild(child);',
    replace: 'return isNumber || areFlags || isAsync === numTokens || isChild(child) || true;',
    also: [
      {
        file: 'src/scheduler/connector/ask-connector.ts',
        find: "const isTooMuch = typeof numTokens === 'number' && numTokens > most;",
        replace: 'const isTooMuch = false;',
      },
    ],
    test,
    means: 'answers to a lookup are not checked',
  },
  {
    failure: 'F28',
    file: 'src/scheduler/life/hand-over.ts',
    find: 'if (answer !== FAILED && !answer.delayFree) return;',
    replace: 'if (answer === FAILED || !answer.delayFree) return;',
    also: [
      {
        file: 'src/scheduler/life/hand-over.ts',
        find: 'const children = answer === FAILED ? connector.reporters.keys() : answer.children;',
        replace: 'const { children } = answer;',
      },
    ],
    test,
    means: 'a connector that failed at the end of a request loses its blocks',
  },
  {
    failure: 'F28',
    file: 'src/scheduler/schedule/schedule.ts',
    find: '    if (!isLost(load.child)) continue;\n    load.failed = true;',
    replace: '    if (!isLost(load.child)) continue;',
    test,
    means: 'synchronous loads without metadata are read',
  },
  {
    failure: 'F28',
    file: 'src/scheduler/schedule/schedule.ts',
    find: '  loseLoadsOf(s, plan.step, isLost);\n',
    replace: '',
    test,
    means: 'loads without metadata are waited for',
  },
  {
    failure: 'F28',
    file: 'src/engine/workers/workers.ts',
    find: 'this.#countFailure(rank, method, error);',
    replace: 'throw error;',
    test: 'test/guards/engine-transfers.test.ts',
    means: 'an exception of a worker goes through',
  },
  {
    failure: 'F28',
    file: 'src/engine/workers/workers.ts',
    find: 'this.#lose(plan, rank, error instanceof ChildrenError ? error.children : null);',
    replace: 'void error;',
    test: 'test/guards/engine-transfers.test.ts',
    means: 'loads that a worker failed to begin are waited for, or read',
  },
  {
    failure: 'F59',
    file: 'src/scheduler/state/queues.ts',
    find: "    if (request.container === 'running') {\n      const at",
    replace: "    if (request.status === 'RUNNING') {\n      const at",
    also: [
      {
        file: 'src/scheduler/life/finish.ts',
        find: 'export function finishDetached(s: SchedulerState, request: Request, reason: FinishCode): boolean {',
        replace:
          "export function finishDetached(s: SchedulerState, request: Request, reason: FinishCode): boolean {\n  if (request.status === 'WAITING_FOR_REMOTE_KVS') return false;",
      },
    ],
    test,
    means: 'an abort does not reach what loads',
  },
  {
    failure: 'F59',
    file: 'src/scheduler/life/finish.ts',
    find: '  leaveLoading(s, request);\n',
    replace: '',
    test,
    means: 'what ended is still noted as loading',
  },
];
