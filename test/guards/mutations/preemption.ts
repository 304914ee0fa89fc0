import type { Mutation } from './mutation.js';

const test = 'test/guards/preemption.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F35',
    file: 'src/scheduler/loads.ts',
    find: "request.status = request.numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';",
    replace: "request.status = 'WAITING';",
    test,
    means: 'a preempted request comes back as new',
  },
  {
    failure: 'F36',
    file: 'src/scheduler/update-pass.ts',
    find: "if (delivers && request.container !== 'running' && mustRecompute(s, request, tokens, from, end)) {",
    replace: 'if (delivers && mustRecompute(s, request, tokens, from, end) && from > end) {',
    test,
    means: 'it ends without blocks',
  },
  {
    failure: 'F36',
    file: 'src/scheduler/update-pass.ts',
    find: '  Object.assign(request, { numTokens, stopReason, checkFrom, forgetStopReason, firstTokenAt });\n',
    replace: '  Object.assign(request, { numTokens, checkFrom, forgetStopReason, firstTokenAt });\n',
    also: [
      {
        file: 'src/scheduler/update-pass.ts',
        find: 'const { numTokens, stopReason, checkFrom, forgetStopReason, firstTokenAt } = request;',
        replace: 'const { numTokens, checkFrom, forgetStopReason, firstTokenAt } = request;',
      },
    ],
    test,
    means: 'a stop that was taken back leaves its reason',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/preempt.ts',
    find: '  if (isUsed(request)) {\n',
    replace: '  if (isUsed(request) && s.step < 0) {\n',
    test,
    means: 'used blocks are given out',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/finish.ts',
    find: '    s.core.native.unpin(request.keptBlocks);\n',
    replace: '',
    test,
    means: 'they never come back',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/preempt.ts',
    find: 'Int32Array.from([...(request.keptBlocks ?? []), ...held]);',
    replace: 'Int32Array.from(held);',
    test,
    means: 'only the last residency is remembered',
  },
  {
    failure: 'F37',
    file: 'src/scheduler/running-pass.ts',
    find: 'return worstOf(s, free.length > 0 ? free : running);',
    replace: 'void free;\n  return worstOf(s, running);',
    test,
    means: 'a victim that gives no blocks',
  },
  {
    failure: 'F39',
    file: 'src/scheduler/running-pass.ts',
    find: 'return worstOf(s, free.length > 0 ? free : running);',
    replace: 'void free;\n  return worstOf(s, running);',
    test,
    means: 'one after the other that gives nothing',
  },
];
