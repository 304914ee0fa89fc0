// F10, F12, F13, F14, F17, F18: loads.
import type { Mutation } from './mutation.js';

const test = 'test/guards/loading.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F10',
    file: 'src/scheduler/life/finish.ts',
    find: 'if (request.outstanding !== null && request.outstanding.size > 0) return;',
    replace: '',
    test,
    means: 'the first report frees the blocks',
  },
  {
    failure: 'F10',
    file: 'src/scheduler/loads/reports.ts',
    find: "request.outstanding?.remove('store', owner)",
    replace:
      "request.outstanding?.removeWhere('load', () => true) || request.outstanding?.remove('store', owner)",
    test,
    means: 'what is sent ends what is received',
  },
  {
    failure: 'F12',
    file: 'src/scheduler/loads/load-failure.ts',
    find: `    loseLoad(s, request);
    // Nothing`,
    replace: `    loseLoad(s, request);
    request.outstanding?.removeWhere('load', () => true);
    s.queues.unparkLoading(request);
    // Nothing`,
    test,
    means: 'a load that failed is over',
  },
  {
    failure: 'F12',
    file: 'src/scheduler/loads/load-failure.ts',
    find: `    failed.add(loading);
    truncateLoad(s, loading, firstTokenIn`,
    replace: `    failed.add(loading);
    loading.outstanding?.removeWhere('load', () => true);
    s.queues.unparkLoading(loading);
    truncateLoad(s, loading, firstTokenIn`,
    test,
    means: 'a load with a missing block is over',
  },
  {
    failure: 'F13',
    file: 'src/scheduler/life/finish.ts',
    find: 'leaveLoading(s, request);',
    replace: "leaveLoading(s, request);\n  request.outstanding?.removeWhere('load', () => true);",
    test,
    means: 'an abort frees blocks that are still written',
  },
  {
    failure: 'F14',
    file: 'src/scheduler/life/finish.ts',
    find: 'leaveLoading(s, request);',
    replace:
      "if (request.load !== null) request.outstanding?.add('load', 'child 0 rank 0', s.now);\n  leaveLoading(s, request);",
    test,
    means: 'the delay comes from the status',
  },
  {
    failure: 'F17',
    file: 'src/scheduler/loads/begin-load.ts',
    find: 'startDeadline(s, request, s.config.deadlines.load);',
    replace: '',
    test,
    means: 'a load may take for ever',
  },
  {
    failure: 'F18',
    file: 'src/scheduler/life/expiry.ts',
    find: 'quarantine(s, request);\n',
    replace: '\n',
    test,
    means: 'a report that does not come is waited for without end',
  },
  {
    failure: 'F18',
    file: 'src/scheduler/life/finish.ts',
    find: 's.quarantined.add(request);',
    replace: 'request.outstanding = null; releaseIfDrained(s, request);',
    test,
    means: 'blocks that may still be written go back to the pool',
  },
  {
    failure: 'F18',
    file: 'src/scheduler/request/outstanding.ts',
    find: 'return match !== null && (child === undefined || Number(match[1]) === child);',
    replace: 'return match !== null;',
    test,
    means: 'a fence of one child ends what another one does',
  },
];
