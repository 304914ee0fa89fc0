// F28, F44, F45, F46, F47, F48, F56: the boundary to adapters that borrow requests.
import type { Mutation } from './mutation.js';

const test = 'test/guards/borrowing.test.ts';
const hostile = 'test/guards/borrowing-hostile.test.ts';
const LOAN = 'src/scheduler/lend/loan.ts';
const ASK = 'src/scheduler/borrow/ask-borrower.ts';
const FINISH = 'src/scheduler/life/finish.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F28',
    file: ASK,
    find: "      this.#anomalies.report('borrower-failed', detail, about);\n      return false;",
    replace: "      this.#anomalies.report('borrower-failed', detail, about);\n      throw error;",
    test: hostile,
    means: 'what a borrowing adapter throws goes on',
  },
  {
    failure: 'F28',
    file: LOAN,
    find: '    if (!isDone) this.#keepBack();\n',
    replace: '    void isDone;\n    void this.#keepBack;\n',
    test: hostile,
    means: 'what waits for a chunk is scheduled when processing threw',
  },
  {
    failure: 'F44',
    file: LOAN,
    find: '    boundaryGuards.purgeAtProcess(this.#s);\n',
    replace: '',
    test,
    means: 'no purge at processing',
  },
  {
    failure: 'F44',
    file: ASK,
    find: '    if (this.#known.has(request)) return;\n',
    replace: '',
    test,
    means: 'a zombie is cleaned up twice',
  },
  {
    failure: 'F44',
    file: FINISH,
    find: '  s.borrower?.noteEnded(request);\n',
    replace: '',
    test,
    means: 'the adapter never hears of an end',
  },
  {
    failure: 'F45',
    file: LOAN,
    find: '    boundaryGuards.purgeAtRestore(this.#s);\n',
    replace: '',
    test,
    means: 'no purge at restoring',
  },
  {
    failure: 'F45',
    file: 'src/scheduler/state/queues.ts',
    find: "    else if (request.container === 'lent') this.removeLent(request);\n",
    replace: '',
    test,
    means: 'a request that ends while it is lent stays lent',
  },
  {
    failure: 'F46',
    file: FINISH,
    find: '  boundaryGuards.realign(s, live);\n',
    replace: '',
    test,
    means: 'no realignment before the base finish',
  },
  {
    failure: 'F46',
    file: 'src/scheduler/scheduler.ts',
    find: 'return finishFromOutside(this.#s, all, FinishCode.abort);',
    replace: 'return finishAll(this.#s, all, FinishCode.abort);',
    also: [
      {
        file: 'src/scheduler/scheduler.ts',
        find: "import { finishFromOutside } from './life/finish.js';",
        replace: "import { finishAll } from './life/finish.js';",
      },
    ],
    test,
    means: 'an end of all goes another way',
  },
  {
    failure: 'F47',
    file: FINISH,
    find: '  boundaryGuards.sweep(s);\n',
    replace: '',
    test,
    means: 'no sweep after the base finish',
  },
  {
    failure: 'F47',
    file: 'src/scheduler/life/chunks.ts',
    find: '  finishFromOutside(s, [request], FinishCode.abort);\n',
    replace: '  finish(s, request, FinishCode.abort);\n',
    also: [
      {
        file: 'src/scheduler/life/chunks.ts',
        find: "import { finishFromOutside } from './finish.js';",
        replace: "import { finish } from './finish.js';",
      },
    ],
    test,
    means: 'the end of an idle session goes another way',
  },
  {
    failure: 'F48',
    file: LOAN,
    find: '    for (const request of [...queues.lent.keys()]) {\n      queues.putBack(request, false);\n',
    replace: '    for (const request of [...queues.lent.keys()]) {\n',
    test: hostile,
    means: 'a request that the adapter lost stays lost',
  },
  {
    failure: 'F48',
    file: LOAN,
    find: "    if (holds && this.#phase === 'taking') {\n",
    replace: '    if (holds) {\n',
    test: hostile,
    means: 'the adapter takes requests out whenever it likes',
  },
  {
    failure: 'F48',
    file: LOAN,
    find: '    this.#settleStatuses(false);\n',
    replace: '',
    test: hostile,
    means: 'a step is planned with the statuses that the adapter wrote',
  },
  {
    failure: 'F48',
    file: LOAN,
    find: '    this.#settleStatuses(true);\n',
    replace: '',
    test: hostile,
    means: 'a step ends with the statuses that the adapter wrote',
  },
  {
    failure: 'F56',
    file: 'src/scheduler/schedule/line.ts',
    find: ' - queues.numLentRunning',
    replace: '',
    test: hostile,
    means: 'others are admitted in the place of what is lent',
  },
  {
    failure: 'F56',
    file: 'src/scheduler/state/adapters.ts',
    find: "      for (const [each, from] of lent) if (from === 'running') this.#note(each);\n",
    replace: '      void lent;\n',
    test: hostile,
    means: 'adapters of what is lent do not count',
  },
];
