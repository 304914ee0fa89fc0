import type { Plant } from './shared/plant.js';

const LOAN = 'src/scheduler/lend/loan.ts';
const FINISH = 'src/scheduler/life/finish.ts';

/** The boundary to adapters that borrow requests, with each guard taken out. The simulation of the scheduler must miss each. */
export const BORROW_PLANTS: readonly Plant[] = [
  {
    name: 'F44-process',
    why: 'what has ended stands in an array of the adapter when it processes',
    file: LOAN,
    text: '    boundaryGuards.purgeAtProcess(this.#s);\n',
    replacement: '',
  },
  {
    name: 'F44-twice',
    why: 'the adapter is told twice to forget a request',
    file: 'src/scheduler/borrow/ask-borrower.ts',
    text: '    if (this.#known.has(request)) return;\n',
    replacement: '',
  },
  {
    name: 'F44-never',
    why: 'the adapter never hears of an end',
    file: FINISH,
    text: '  s.borrower?.noteEnded(request);\n',
    replacement: '',
  },
  {
    name: 'F45-restore',
    why: 'what has ended stands in an array of the adapter when it restores',
    file: LOAN,
    text: '    boundaryGuards.purgeAtRestore(this.#s);\n',
    replacement: '',
  },
  {
    name: 'F45-lent',
    why: 'a request that ends while it is lent stays lent',
    file: 'src/scheduler/state/queues.ts',
    text: "    else if (request.container === 'lent') this.removeLent(request);\n",
    replacement: '',
  },
  {
    name: 'F46-realign',
    why: 'a request ends with the status that the adapter wrote',
    file: FINISH,
    text: '  boundaryGuards.realign(s, live);\n',
    replacement: '',
  },
  {
    name: 'F46-all',
    why: 'the adapter is not told of an end of all',
    file: 'src/scheduler/scheduler.ts',
    text: "import { finishFromOutside } from './life/finish.js';",
    replacement: "import { finishAll as finishFromOutside } from './life/finish.js';",
  },
  {
    name: 'F47-sweep',
    why: 'what has ended stays among the running',
    file: FINISH,
    text: '  boundaryGuards.sweep(s);\n',
    replacement: '',
  },
  {
    name: 'F47-idle',
    why: 'the adapter is not told of the end of an idle session',
    file: 'src/scheduler/life/chunks.ts',
    text: "import { finishFromOutside } from './finish.js';",
    replacement: "import { finishAll as finishFromOutside } from './finish.js';",
  },
  {
    name: 'F48-lost',
    why: 'a request that the adapter lost stays lost',
    file: LOAN,
    text: '    for (const request of [...queues.lent.keys()]) {\n      queues.putBack(request, false);\n',
    replacement: '    for (const request of [...queues.lent.keys()]) {\n',
  },
  {
    name: 'F48-late',
    why: 'the adapter takes requests out whenever it likes',
    file: LOAN,
    text: "    if (holds && this.#phase === 'taking') {\n",
    replacement: '    if (holds) {\n',
  },
  {
    name: 'F48-planned',
    why: 'a step is planned with the statuses that the adapter wrote',
    file: LOAN,
    text: '    this.#settleStatuses(false);\n',
    replacement: '',
  },
  {
    name: 'F48-ends',
    why: 'a step ends with the statuses that the adapter wrote',
    file: LOAN,
    text: '    this.#settleStatuses(true);\n',
    replacement: '',
  },
  {
    name: 'F48-loading',
    why: 'a request whose load began in the step is set right as if it waited for nothing',
    file: LOAN,
    text: '    this.#skipped = [...this.#skippedNow(), ...queues.lent.keys()];\n',
    replacement: '',
  },
  {
    name: 'F48-resumed',
    why: 'a session that was never preempted is resumed, because the adapter says so',
    file: LOAN,
    text: "  if (numPreemptions === 0 || (session !== null && status === 'WAITING')) return 'WAITING';",
    replacement: "  if (session !== null && (status === 'WAITING' || status === 'PREEMPTED')) return status;",
  },
];
