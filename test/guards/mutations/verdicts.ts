import type { Mutation } from './mutation.js';

const test = 'test/guards/load-verdicts.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F23',
    file: 'src/scheduler/life/finish.ts',
    find: 'if (request.outstanding !== null && request.outstanding.size > 0) return;',
    replace:
      'if (request.outstanding !== null && request.outstanding.size > 0 && request.finishCode !== 4) return;',
    also: [
      {
        file: 'src/scheduler/life/finish.ts',
        find: 'if (request.outstanding === null || request.outstanding.size === 0) releaseIfDrained(s, request);',
        replace:
          'if (request.outstanding === null || request.outstanding.size === 0 || reason === 4) releaseIfDrained(s, request);',
      },
    ],
    test,
    means: 'what ends with error is not waited for',
  },
  {
    failure: 'F24',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '  for (const report of output?.failedReceiving ?? []) applyFailed(s, plans, report, failed, found);\n',
    replace: '',
    test,
    means: 'only blocks fail, not requests',
  },
  {
    failure: 'F24',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 'load.child === child && (step === undefined || step === load.step) && isDeclared(s, report)',
    replace: 'load.child === child && isDeclared(s, report)',
    also: [
      {
        file: 'src/scheduler/loads/load-failure.ts',
        find: 'const { handle, child, step } = report;',
        replace: 'const { handle, child } = report;',
      },
    ],
    test,
    means: 'a failure is not told from that of another load',
  },
  {
    failure: 'F25',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    find: 'config.enablePrefixCaching && !external.async;',
    replace: 'config.enablePrefixCaching;',
    test,
    means: 'an asynchronous load is published before its verdict',
  },
  {
    failure: 'F25',
    file: 'src/scheduler/loads/bad-blocks.ts',
    find: 'request.numComputedTokens = Math.min(request.numComputedTokens, tokensKept(s, request, firstBad));',
    replace: '',
    test,
    means: 'a bad block does not cut the load',
  },
  {
    failure: 'F25',
    file: 'src/engine/workers/workers.ts',
    find: 'const times = { step, failed: plan.failedHandles() };',
    replace: 'const times = { step, failed: plan.failedHandles().slice(Infinity) };',
    test: 'test/guards/engine-transfers.test.ts',
    means: 'workers are not told what a failed step did not write',
  },
  {
    failure: 'F53',
    file: 'src/scheduler/loads/reports.ts',
    find: "if (!isEarlier && request.outstanding?.remove('load', peer(child, rank))) releaseIfDrained(s, request);",
    replace:
      "if (!isEarlier && request.finishCode !== 4 && request.outstanding?.remove('load', peer(child, rank)))\n    releaseIfDrained(s, request);",
    test,
    means: 'the end of a load that failed does not count',
  },
  {
    failure: 'F53',
    file: 'src/scheduler/loads/reports.ts',
    find: "if (request.outstanding?.remove('store', owner)) {",
    replace: "if (!request.cancelled && request.outstanding?.remove('store', owner)) {",
    test,
    means: 'the end of a send that was cancelled does not count',
  },
  {
    failure: 'F54',
    file: 'src/scheduler/loads/judge-report.ts',
    find: 'request.loadStep >= 0 && step !== request.loadStep;',
    replace: 'request.load !== null && step !== request.loadStep;',
    test,
    means: 'an aborted load takes the reports of an earlier one',
  },
  {
    failure: 'F54',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 'if (known || isDrained(s, block, child, handle)) return;',
    replace: 'if (known) return;',
    test,
    means: 'a failure after an abort is held against the peer',
  },
  {
    failure: 'F54',
    file: 'src/scheduler/request/outstanding.ts',
    find: '    if (!this.#since.delete(key)) return false;\n    this.#ended.add(key);',
    replace:
      '    const [first] = this.#since.keys();\n    if (first !== key || !this.#since.delete(key)) return false;\n    this.#ended.add(key);',
    test,
    means: 'uses end in the order in which they began',
  },
];
