// F3, F8, F16: aborts and slots in an engine.
import type { Mutation } from './mutation.js';

const test = 'test/guards/engine.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F3',
    file: 'src/scheduler/calls/aborts.ts',
    find: 'while (this.#waiting.size > 0) {',
    replace: 'while (this.#waiting.size > 0 && this.#calls.state.inFlight.length === 0) {',
    test,
    means: 'aborts wait until the step was updated',
  },
  {
    failure: 'F8',
    file: 'src/engine/workers/workers.ts',
    find: 'this.#countFailure(rank, method, error);',
    replace: 'throw error;',
    test,
    means: 'what a worker throws breaks the engine',
  },
  {
    failure: 'F16',
    file: 'src/scheduler/schedule/schedule.ts',
    find: 'plan.finishedHandles = s.finishedHandles;',
    replace: '',
    test,
    means: 'the plan names by external id only what has finished',
  },
  {
    failure: 'F16',
    file: 'src/engine/workers/workers.ts',
    find: 'if (finished.length > 0) this.#finished = [];',
    replace: '',
    test,
    means: 'workers are told of what finished with every round again',
  },
];
