// F2, F4, F5, F6, F7: the end of a request.
import type { Mutation } from './mutation.js';

const test = 'test/guards/finishing.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F2',
    file: 'src/scheduler/state/guards.ts',
    find: 'if (request?.isFinished) {',
    replace: 'if (request?.isFinished && s.step < 0) {',
    test,
    also: [
      {
        file: 'src/scheduler/life/finish.ts',
        find: `if (request.isFinished) return false;
  s.queues.detach(request);`,
        replace: 's.queues.detach(request);',
      },
    ],
    means: 'a finished request is finished again',
  },
  {
    failure: 'F2',
    file: 'src/scheduler/state/guards.ts',
    find: 'if (request?.isFinished) {',
    replace: 'if (request?.isFinished && s.step < 0) {',
    test,
    means: 'an abort of a finished request is not counted',
  },
  {
    failure: 'F4',
    file: 'src/scheduler/life/finish.ts',
    find: 'if (!request.cancelled) s.connector?.tellCancel(request);',
    replace: '',
    test,
    means: 'nobody asks the connector to stop',
  },
  {
    failure: 'F4',
    file: 'src/scheduler/life/finish.ts',
    find: 'if (!request.cancelled) s.connector?.tellCancel(request);',
    replace: 's.connector?.tellCancel(request);',
    test,
    also: [
      {
        file: 'src/scheduler/life/abort.ts',
        find: '(isCancellable(s, request) && !request.cancelled)',
        replace: 'isCancellable(s, request)',
      },
    ],
    means: 'it is asked again and again',
  },
  {
    failure: 'F4',
    file: 'src/scheduler/life/finish.ts',
    find: 'request.cancelled = true;',
    replace: 'request.cancelled = true; request.outstanding = null; releaseIfDrained(s, request);',
    test,
    means: 'the blocks go back at once, under the reader',
  },
  {
    failure: 'F5',
    file: 'src/scheduler/update/update-pass.ts',
    find: 'if (request.finishCode !== goesOn || dropped[i] !== 0) {',
    replace: 'if (dropped[i] !== 0) {',
    test,
    means: 'an update takes tokens of a finished request',
  },
  {
    failure: 'F6',
    file: 'src/scheduler/life/finish.ts',
    find: `if (request.isFinished) return false;
  s.queues.detach(request);`,
    replace: 's.queues.detach(request);',
    test,
    also: [
      {
        file: 'src/scheduler/update/update-pass.ts',
        find: 'if (request.finishCode !== goesOn || dropped[i] !== 0) {',
        replace: 'if (dropped[i] !== 0) {',
      },
    ],
    means: 'a request that stops after its abort is finished again',
  },
  {
    failure: 'F7',
    file: 'src/scheduler/life/finish.ts',
    find: 'if (reclaim > 0) s.deadlines.limitWait(request, s.now + reclaim);',
    replace: 'if (reclaim < 0) s.deadlines.limitWait(request, s.now + reclaim);',
    test,
    means: 'what is never reported is waited for without end',
  },
  {
    failure: 'F7',
    file: 'src/scheduler/life/finish.ts',
    find: 's.quarantined.add(request);',
    replace: 'request.outstanding = null; releaseIfDrained(s, request);',
    test,
    means: 'what is given up goes back to the pool',
  },
  {
    failure: 'F7',
    file: 'src/scheduler/loads/fence.ts',
    find: '...s.draining, ...s.quarantined]',
    replace: '...s.draining]',
    test,
    means: 'a fence does not give back what was given up',
  },
];
