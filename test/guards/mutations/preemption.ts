// F35, F36, F37, F39: preemption.
import type { Mutation } from './mutation.js';

const test = 'test/guards/preemption.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F35',
    file: 'src/scheduler/life/loading.ts',
    find: "request.status = request.numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';",
    replace: "request.status = 'WAITING';",
    test,
    means: 'a preempted request comes back as new',
  },
  {
    failure: 'F36',
    file: 'src/scheduler/update/update-pass.ts',
    find: 'if (delivers && hasLost(request, plan) && mustRecompute(s, request, tokens, from, end)) {',
    replace:
      'if (delivers && hasLost(request, plan) && mustRecompute(s, request, tokens, from, end) && from > end) {',
    test,
    means: 'it ends without blocks',
  },
  {
    failure: 'F36',
    file: 'src/scheduler/update/update-pass.ts',
    find: '  Object.assign(request, { numTokens, stopReason, checkFrom, forgetStopReason, firstTokenAt });\n',
    replace: '  Object.assign(request, { numTokens, checkFrom, forgetStopReason, firstTokenAt });\n',
    also: [
      {
        file: 'src/scheduler/update/update-pass.ts',
        find: 'const { numTokens, stopReason, checkFrom, forgetStopReason, firstTokenAt } = request;',
        replace: 'const { numTokens, checkFrom, forgetStopReason, firstTokenAt } = request;',
      },
    ],
    test,
    means: 'a stop that was taken back leaves its reason',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/life/preempt.ts',
    find: '  if (isUsed(request)) keepBlocks(',
    replace: '  if (isUsed(request) && s.step < 0) keepBlocks(',
    test,
    means: 'used blocks are given out',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/life/preempt.ts',
    find: '  else s.core.native.unpin(lastFirst(keptBlocks));\n',
    replace: '',
    test,
    means: 'they never come back',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/life/preempt.ts',
    find: 'request.keptBlocks === null ? blocks : joined(request.keptBlocks, blocks);',
    replace: 'Int32Array.from(blocks);',
    test,
    means: 'only the last residency is remembered',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/schedule/running-pass.ts',
    find: 'mayHoldOn ? running.filter((request) => givesBlocks(s, request)) : running;',
    replace:
      'running.length < 0 && mayHoldOn ? running.filter((request) => givesBlocks(s, request)) : running;',
    test,
    means: 'a victim that gives no blocks',
  },
  {
    failure: 'F39',
    file: 'src/scheduler/schedule/running-pass.ts',
    find: 'mayHoldOn ? running.filter((request) => givesBlocks(s, request)) : running;',
    replace:
      'running.length < 0 && mayHoldOn ? running.filter((request) => givesBlocks(s, request)) : running;',
    test,
    means: 'one after the other that gives nothing',
  },
  {
    failure: 'F39',
    file: 'src/scheduler/schedule/running-pass.ts',
    find: 'if (entriesBack === NOBODY || s.config.deviations.priorityCursor)',
    replace: 'if (entriesBack === NOBODY)',
    test,
    means: 'a victim that was passed over shifts the list under the loop',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/schedule/schedule.ts',
    find: '    plan.releasedHandles = s.releasedHandles;',
    replace:
      '    plan.releasedHandles = s.releasedHandles.filter((handle) => !plan.preemptedHandles.includes(handle));',
    test,
    means: 'workers are not told of a victim of this step',
  },
];
