import type { Mutation } from './mutation.js';

const test = 'test/guards/waiting.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F61',
    file: 'src/scheduler/life/add-request.ts',
    find: '  enterQueue(s, request);\n',
    replace: '  void enterQueue;\n',
    test,
    means: 'a new request waits for ever',
  },
  {
    failure: 'F61',
    file: 'src/scheduler/life/preempt.ts',
    find: '  enterQueue(s, request);\n',
    replace: '  void enterQueue;\n',
    test,
    means: 'a preempted request waits for ever',
  },
  {
    failure: 'F61',
    file: 'src/scheduler/life/chunks.ts',
    find: '  enterQueue(s, request);\n',
    replace: '  void enterQueue;\n',
    test,
    means: 'a session waits for ever for its turn',
  },
  {
    failure: 'F61',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    find: '  leaveQueue(s, request);\n',
    replace: '  void leaveQueue;\n',
    test,
    means: 'what runs ends as if it waited',
  },
  {
    failure: 'F61',
    file: 'src/scheduler/life/chunks.ts',
    find: '  endConnectorWait(s, request);\n',
    replace: '  void endConnectorWait;\n',
    test,
    means: 'a session goes on with a wait that is over',
  },
  {
    failure: 'F62',
    file: 'src/scheduler/life/add-request.ts',
    find: '  limitWhole(s, request, s.now);\n',
    replace: '  void limitWhole;\n',
    test,
    means: 'the time of a request never begins',
  },
  {
    failure: 'F62',
    file: 'src/scheduler/life/chunks.ts',
    find: 'limitWhole(s, request, chunk.addedAt);',
    replace: 'limitWhole(s, request, s.now);',
    test,
    means: 'the time of a chunk begins with its turn',
  },
  {
    failure: 'F62',
    file: 'src/engine/streams/submission.ts',
    find: '    timeoutMs,\n',
    replace: '    timeoutMs: timeoutMs === 0 ? 1 : undefined,\n',
    test,
    means: 'the time of a submission is lost',
  },
  {
    failure: 'F62',
    file: 'src/engine/inspect/explain.ts',
    find: "  add('its timeoutMs', wholeDeadline);\n",
    replace: '  void wholeDeadline;\n',
    test,
    means: 'explain does not tell what is left',
  },
];
