import type { Mutation } from './mutation.js';

const test = 'test/guards/completions.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F1',
    file: 'src/scheduler/loads/reports.ts',
    find: `if (request === undefined) return;
  const { child, rank, step } = report;`,
    replace: `if (request === undefined) throw new Error('an untracked request was received');
  const { child, rank, step } = report;`,
    test,
    means: 'a load of an unknown request is an assertion',
  },
  {
    failure: 'F1',
    file: 'src/scheduler/loads/reports.ts',
    find: `if (request === undefined) return;
  const owner = peer(report.child, report.rank);
  if (request.outstanding?.remove('store', owner)) {`,
    replace: `if (request === undefined) throw new Error('an untracked request was sent');
  const owner = peer(report.child, report.rank);
  if (request.outstanding?.remove('store', owner)) {`,
    test,
    means: 'a send of an unknown request is an assertion',
  },
  {
    failure: 'F1',
    file: 'src/scheduler/loads/load-failure.ts',
    find: `if (request === undefined) return;
  if (request.load !== null && isOurs`,
    replace: `if (request === undefined) throw new Error('an untracked request failed');
  if (request.load !== null && isOurs`,
    test,
    means: 'a failed load of an unknown request is an assertion',
  },
  {
    failure: 'F1',
    file: 'src/scheduler/state/guards.ts',
    find: `  s.anomalies.report(
    'stale-handle',`,
    replace: `  if (s.step < 0) s.anomalies.report(
    'stale-handle',`,
    test,
    means: 'what is skipped is not counted',
  },
  {
    failure: 'F9',
    file: 'src/scheduler/loads/reports.ts',
    find: 'if (!request.isFinished && isDeclared(s, report)) {',
    replace: 'if (request.isFinished && isDeclared(s, report)) {',
    test,
    means: 'an early report is not remembered',
  },
  {
    failure: 'F9',
    file: 'src/scheduler/life/hand-over.ts',
    find: "if (request.outstanding.endEarly('store', peer(child, rank))) continue;",
    replace: '',
    test,
    means: 'a rank that has reported is waited for',
  },
  {
    failure: 'F9',
    file: 'src/scheduler/loads/reports.ts',
    find: "if (request.outstanding.addEarly('store', owner)) {",
    replace: "s.core.push(3, request.slot, 0); if (request.outstanding.addEarly('store', owner)) {",
    test,
    means: 'an early report frees the blocks of a running request',
  },
  {
    failure: 'F9',
    file: 'src/scheduler/connector/ask-connector.ts',
    find: '[...new Set(children)] as number[]',
    replace: '[...children] as number[]',
    test,
    means: 'a child named twice is waited for twice',
  },
  {
    failure: 'F11',
    file: 'src/scheduler/loads/reports.ts',
    find: "request.outstanding?.remove('load', peer(child, rank))",
    replace: "request.outstanding?.removeWhere('load', () => true)",
    test,
    means: 'any report ends the load',
  },
  {
    failure: 'F11',
    file: 'src/scheduler/loads/reports.ts',
    find: "request.outstanding?.remove('store', owner)",
    replace: "request.outstanding?.removeWhere('store', () => true)",
    test,
    means: 'any report ends the sending',
  },
  {
    failure: 'F11',
    file: 'src/scheduler/loads/reports.ts',
    find: 'const isEarlier = isEarlierLoad(request, step);',
    replace: 'const isEarlier = step === -1;',
    test,
    means: 'reports of a first load count for the second',
  },
  {
    failure: 'F11',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '(step === undefined || step === load.step)',
    replace: '(step === undefined || step <= load.step)',
    test,
    means: 'the failure of a first load counts for the second',
  },
  {
    failure: 'F15',
    file: 'src/scheduler/state/scheduler-state.ts',
    find: 'return request?.handle === handle ? request : undefined;',
    replace: 'return request;',
    test,
    means: 'a handle names whoever has its slot',
  },
  {
    failure: 'F15',
    file: 'src/scheduler/life/finish.ts',
    find: 's.requests.delete(request.id);',
    replace: '',
    test,
    means: 'an id is taken until its blocks are back',
  },
];
