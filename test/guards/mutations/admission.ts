import type { Mutation } from './mutation.js';

const test = 'test/guards/admission.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F33',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    find: ' || reclaimStuckLoad(s, plan, request);\n}',
    replace: ';\n}',
    test,
    means: 'loads that block one another keep their blocks',
  },
  {
    failure: 'F33',
    file: 'src/scheduler/life/reclaim.ts',
    find: 'return (numComputedTokens > 0 || load !== null) && !isUsed(request);',
    replace: 'return numComputedTokens > 0 || load !== null;',
    test,
    means: 'blocks are taken from what would give none',
  },
  {
    failure: 'F33',
    file: 'src/scheduler/life/reclaim.ts',
    find: 'if (!isAlone(s, plan, needy)) return false;',
    replace: 'void isAlone;',
    test,
    means: 'loads are given up while something runs',
  },
  {
    failure: 'F34',
    file: 'src/scheduler/schedule/line.ts',
    find: 'if (dropZombie(s, queue, request)) continue;',
    replace: '',
    test,
    means: 'a finished object is admitted',
  },
  {
    failure: 'F55',
    file: 'src/scheduler/life/loading.ts',
    find: '  s.withLoad.delete(request);\n',
    replace: '',
    test,
    means: 'what has loaded counts as loading',
  },
  {
    failure: 'F55',
    file: 'src/scheduler/inspect/stats.ts',
    find: 'numLoading: s.withLoad.size,',
    replace: 'numLoading: s.externalLoads++,',
    also: [
      {
        file: 'src/scheduler/state/scheduler-state.ts',
        find: '  step = 0;\n',
        replace: '  step = 0;\n  externalLoads = 0;\n',
      },
    ],
    test,
    means: 'a counter beside the state',
  },
  {
    failure: 'F56',
    file: 'src/scheduler/schedule/line.ts',
    find: 'freeSeats(s) > 0',
    replace: 'freeSeats(s) - s.withLoad.size > 0',
    test,
    means: 'what loads takes places of what runs',
  },
  {
    failure: 'F56',
    file: 'src/scheduler/schedule/line.ts',
    find: 'freeSeats(s) > 0',
    replace: 'freeSeats(s) - s.draining.size > 0',
    test,
    means: 'what drains takes places of what runs',
  },
  {
    failure: 'F57',
    file: 'src/scheduler/calls/parse-request.ts',
    find: '  if (s.config.deviations.refuseUnfit) checkFits(s, tokens.length, tokens.length);\n',
    replace: '',
    test,
    means: 'what never fits is queued',
  },
];
