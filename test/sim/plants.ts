/**
 * Bugs to be planted: the guard against one failure of the table in the design, taken out of the real source. The simulator
 * must find each. `text` stands exactly once in `file`.
 */
export interface Plant {
  readonly name: string;
  /** What breaks then. */
  readonly why: string;
  readonly file: string;
  readonly text: string;
  readonly replacement: string;
}

const RECEIVED = "request.outstanding?.remove('load', peer(child, rank))";

export const PLANTS: readonly Plant[] = [
  {
    name: 'F1',
    why: 'a report about an unknown request is not skipped',
    file: 'src/scheduler/loads/reports.ts',
    text: `  if (request === undefined) return;
  const { child, rank, step } = report;`,
    replacement: '  const { child, rank, step } = report as typeof report;',
  },
  {
    name: 'F2',
    why: 'an abort of a finished request ends it again',
    file: 'src/scheduler/state/guards.ts',
    text: `    s.anomalies.report(\`\${event}-finished\`, \`request \${request.id} has finished\`, request);
    return undefined;`,
    replacement: '    request.finishCode = 0;',
  },
  {
    name: 'F5',
    why: 'an update goes on with a request that was aborted while its step ran',
    file: 'src/scheduler/update/update-pass.ts',
    text: 'if (request.finishCode !== goesOn || dropped[i] !== 0) {',
    replacement: 'if (dropped[i] !== 0) {',
  },
  {
    name: 'F9',
    why: 'a request reported as sent while it runs is waited for all the same',
    file: 'src/scheduler/life/hand-over.ts',
    text: "if (request.outstanding.takeEarly('store', peer(child, rank))) continue;",
    replacement: '',
  },
  {
    name: 'F10',
    why: 'the first of several transfers that ends frees the blocks',
    file: 'src/scheduler/life/finish.ts',
    text: '  if (request.outstanding !== null && request.outstanding.size > 0) return;\n',
    replacement: '',
  },
  {
    name: 'F11',
    why: 'reports are counted, not told apart by rank',
    file: 'src/scheduler/loads/reports.ts',
    text: RECEIVED,
    replacement: "request.outstanding?.removeWhere('load', ((n) => () => n++ === 0)(0))",
  },
  {
    name: 'F13',
    why: 'an abort frees blocks that a load still writes',
    file: 'src/scheduler/life/finish.ts',
    text: '  handOver(s, request, reason);\n',
    replacement: "  request.outstanding?.removeWhere('load', () => true);\n  handOver(s, request, reason);\n",
  },
  {
    name: 'F15',
    why: 'a handle names whoever has its slot now',
    file: 'src/scheduler/state/scheduler-state.ts',
    text: 'return request?.handle === handle ? request : undefined;',
    replacement: 'return request;',
  },
  {
    name: 'F20',
    why: 'blocks that were not loaded count as computed',
    file: 'src/scheduler/loads/bad-blocks.ts',
    text: '  request.numComputedTokens = Math.min(request.numComputedTokens, firstBad * s.config.blockSize);\n',
    replacement: '  void firstBad;\n  void s;\n',
  },
  {
    name: 'F25',
    why: 'what is still to be loaded can be found by others',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    text: 'const publishes = config.enablePrefixCaching && !external.async;',
    replacement: 'const publishes = config.enablePrefixCaching;',
  },
  {
    name: 'F28',
    why: 'what a connector throws goes through the scheduler',
    file: 'src/scheduler/connector/ask-connector.ts',
    text: `      this.#fail(request, \`threw at \${question}: \${describeError(error)}\`);\n`,
    replacement: '      throw error;\n',
  },
  {
    name: 'F29',
    why: 'blocks that are still used are no work',
    file: 'src/scheduler/inspect/inspection.ts',
    text: ' + s.draining.size > 0',
    replacement: ' > 0',
  },
  {
    name: 'F33',
    why: 'requests whose prefix was loaded keep their blocks although nobody can run',
    file: 'src/scheduler/life/reclaim.ts',
    text: 'if (!s.config.deviations.admitStuckLoads || s.connector === null) return false;',
    replacement: 'return false;',
  },
  {
    name: 'F37',
    why: 'a preemption frees blocks that a transfer uses',
    file: 'src/scheduler/life/preempt.ts',
    text: '  if (isUsed(request)) keepBlocks(',
    replacement: '  if (isUsed(request) && request.slot < 0) keepBlocks(',
  },
  {
    name: 'F38',
    why: 'a load writes while a step in flight still writes the same blocks',
    file: 'src/engine/workers/workers.ts',
    text: 'notBefore: this.#released.length === 0 ? step - 1 : step',
    replacement: 'notBefore: -1',
  },
  {
    name: 'F42',
    why: 'a report of the child that does not load counts',
    file: 'src/scheduler/loads/reports.ts',
    text: RECEIVED,
    replacement: "request.outstanding?.remove('load', peer(request.load?.child ?? child, rank))",
  },
  {
    name: 'sharer-left',
    why: 'a synchronous load fails, and what a sharer computed from it and left in the cache is found',
    file: 'src/scheduler/loads/load-failure.ts',
    text: '(traceless || someSharerLeft(s, plan, failedEntries))',
    replacement: 'traceless',
  },
  {
    name: 'generation',
    why: 'a synchronous load that failed counts for blocks that belong to somebody else by now',
    file: 'src/scheduler/loads/load-failure.ts',
    text: 'return at >= 0 && s.core.native.blockGeneration(id) === load.generations[at];',
    replacement: 'return at >= 0;',
  },
  {
    name: 'cut',
    why: 'a load that is lost counts local tokens again that were found to be bad before',
    file: 'src/scheduler/life/loading.ts',
    text: 'request.numComputedTokens = Math.min(request.numComputedTokens, load.localTokens);',
    replacement: 'request.numComputedTokens = load.localTokens;',
  },
  {
    name: 'older-output',
    why: 'a request whose load failed is given what an older step brings, and then its end',
    file: 'src/scheduler/loads/load-failure.ts',
    text: '    for (const request of failed) dropOutputs(s, request, plan);\n',
    replacement: '',
  },
  {
    name: 'wait-again',
    why: 'a load held again after it was done keeps nobody waiting',
    file: 'src/scheduler/loads/hold.ts',
    text: '    if (waits) waitAgain(s, request);\n',
    replacement: '    void waits;\n    void waitAgain;\n',
  },
  {
    name: 'wait-again-deadline',
    why: 'a load held again after it was done has no deadline',
    file: 'src/scheduler/loads/hold.ts',
    text: '  startDeadline(s, request, s.config.deadlines.load);\n',
    replacement: '',
  },
  {
    name: 'cancel-oldest',
    why: 'an abort by id stops the sending of the oldest request of that id',
    file: 'src/scheduler/life/abort.ts',
    text: '.findLast(({ id }) => id === key)',
    replacement: '.find(({ id }) => id === key)',
  },
  {
    name: 'F35',
    why: 'a request that was preempted and then loaded comes back as new',
    file: 'src/scheduler/life/loading.ts',
    text: "request.status = request.numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';",
    replacement: "request.status = 'WAITING';",
  },
  {
    name: 'F17',
    why: 'a load may take for ever',
    file: 'src/scheduler/loads/begin-load.ts',
    text: '  startDeadline(s, request, s.config.deadlines.load);\n',
    replacement: '',
  },
  {
    name: 'F18',
    why: 'a finished request whose blocks are never reported is waited for without end',
    file: 'src/scheduler/life/finish.ts',
    text: '  if (reclaim > 0) s.deadlines.limitWait(request, s.now + reclaim);\n',
    replacement: '  void reclaim;\n',
  },
  {
    name: 'F21',
    why: 'whoever shares what a synchronous load left wrong goes on with it',
    file: 'src/scheduler/loads/load-failure.ts',
    text: '  else if (deviations.sharersWait) recomputeSharers(s, plan, bad, owners);\n',
    replacement: '',
  },
  {
    name: 'row-sharers',
    why: 'whoever shares what a failed row left wrong goes on with it',
    file: 'src/scheduler/update/step-failure.ts',
    text: '  else if (bad.size > 0) recomputeSharers(s, plan, bad, NOBODY);\n',
    replacement: '',
  },
  {
    name: 'F33-used',
    why: 'a request that waits gives up blocks that a transfer uses, which frees none',
    file: 'src/scheduler/life/reclaim.ts',
    text: 'return (numComputedTokens > 0 || load !== null) && !isUsed(request);',
    replacement: 'return numComputedTokens > 0 || load !== null;',
  },
  {
    name: 'F33-alone',
    why: 'what was loaded is given up while something runs',
    file: 'src/scheduler/life/reclaim.ts',
    text: 'if (!isAlone(s, plan, needy)) return false;',
    replacement: 'void isAlone;',
  },
  {
    name: 'F56',
    why: 'what drains takes places of what runs',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    text: 'queues.running.length < config.maxNumSeqs',
    replacement: 'queues.running.length + s.draining.size < config.maxNumSeqs',
  },
  {
    name: 'F39',
    why: 'a victim is preempted whose blocks are used, and gives none',
    file: 'src/scheduler/schedule/running-pass.ts',
    text: 'mayHoldOn ? running.filter((request) => givesBlocks(s, request)) : running;',
    replacement: 'running;',
  },
  {
    name: 'F29-idle',
    why: 'blocks that nobody waits for are work for ever',
    file: 'src/scheduler/inspect/inspection.ts',
    text: ' + s.draining.size > 0',
    replacement: ' + s.draining.size + s.quarantined.size > 0',
  },
  {
    name: 'F29-own',
    why: 'the work of the connector itself is no work',
    file: 'src/scheduler/inspect/inspection.ts',
    text: 'return s.connector?.askPendingWork() === true;',
    replacement: 'return s.connector?.askPendingWork() === true && s.step < 0;',
  },
  {
    name: 'F41',
    why: 'a tier that kept its content counts as reset',
    file: 'src/scheduler/life/prefix-reset.ts',
    text: 'const ok = local && connector !== false;',
    replacement: 'const ok = local;',
  },
  {
    name: 'F43',
    why: 'every child is expected on every rank',
    file: 'src/scheduler/connector/ask-connector.ts',
    text: 'return s.connector?.reporters[child] ?? [];',
    replacement: 'return child >= 0 ? (s.connector?.reporters[0] ?? []) : [];',
  },
  {
    name: 'F9-twice',
    why: 'a child that is named twice is waited for, though it has reported',
    file: 'src/scheduler/connector/ask-connector.ts',
    text: '[...new Set(children)] as number[]',
    replacement: '[...children] as number[]',
  },
  {
    name: 'F11-earlier',
    why: 'a report of an earlier load counts for the present one',
    file: 'src/scheduler/loads/reports.ts',
    text: 'const isEarlier = isEarlierLoad(request, step);',
    replacement: 'const isEarlier = step === -1;',
  },
  {
    name: 'F24-earlier',
    why: 'the failure of an earlier load counts for the present one',
    file: 'src/scheduler/loads/load-failure.ts',
    text: '(step === undefined || step === load.step)',
    replacement: '(step === undefined || step <= load.step)',
  },
  {
    name: 'F54',
    why: 'a load that was aborted takes the reports of an earlier one',
    file: 'src/scheduler/loads/judge-report.ts',
    text: 'request.loadStep >= 0 && step !== request.loadStep;',
    replacement: 'request.load !== null && step !== request.loadStep;',
  },
  {
    name: 'session-outputs',
    why: 'what steps in flight bring behind an answer that has ended goes on with it',
    file: 'src/scheduler/life/chunks.ts',
    text: `  discardOutputs(s, request);
`,
    replacement: '',
  },
  {
    name: 'session-chunk',
    why: 'the last token of an answer counts as computed when the next chunk comes',
    file: 'src/scheduler/life/chunks.ts',
    text: 'const kept = request.numTokens - 1;',
    replacement: 'const kept = request.numTokens;',
  },
  {
    name: 'queue-deadline',
    why: 'a preempted request may stand in the queue for ever',
    file: 'src/scheduler/life/preempt.ts',
    text: '  enterQueue(s, request);\n',
    replacement: '  void enterQueue;\n',
  },
  {
    name: 'request-timeout',
    why: 'the time of a session begins only with the turn of a chunk',
    file: 'src/scheduler/life/chunks.ts',
    text: 'limitWhole(s, request, chunk.addedAt);',
    replacement: 'limitWhole(s, request, s.now);',
  },
  {
    name: 'input-deadline',
    why: 'a session waits for its next chunk for ever',
    file: 'src/scheduler/life/chunks.ts',
    text: `  startDeadline(s, request, s.config.deadlines.streamingInput);
`,
    replacement: '',
  },
  {
    name: 'grammar-deadline',
    why: 'a request waits for its grammar for ever',
    file: 'src/scheduler/life/add-request.ts',
    text: `    startDeadline(s, request, s.config.deadlines.grammar);
`,
    replacement: `    void startDeadline;
`,
  },
  {
    name: 'adapters',
    why: 'more adapters run in a step than fit',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    text: '    if (request.waitsForAdapter) {',
    replacement: '    if (request.waitsForAdapter && s.step < 0) {',
  },
  {
    name: 'grammar-end',
    why: 'a grammar that refuses what ended an answer is not heard',
    file: 'src/scheduler/update/update-pass.ts',
    text: '    if (request.grammar === null) continue;',
    replacement: '    if (request.grammar === null || finishReasons[row] !== FinishCode.none) continue;',
  },
  {
    name: 'session-load',
    why: 'a session goes on with blocks that a load still writes',
    file: 'src/scheduler/life/chunks.ts',
    text: `  leaveConnector(s, request);
`,
    replacement: '',
  },
  {
    name: 'failed-load-kept',
    why: 'a session whose load failed as a whole keeps its blocks, whoever needs them',
    file: 'src/scheduler/life/reclaim.ts',
    text: 'if (numComputedTokens === 0 && load === null) return false;',
    replacement: 'if (numComputedTokens === 0) return false;',
  },
  {
    name: 'delivery-again',
    why: 'a request that was taken in again stops without the KV that it is to send',
    file: 'src/scheduler/update/update-pass.ts',
    text: "return container !== 'running' || admittedStep > plan.step;",
    replacement: "return container !== 'running';",
  },
  {
    name: 'invalid-child',
    why: 'a block that one child could not load fails the load of another',
    file: 'src/scheduler/loads/load-failure.ts',
    text: `    if (at < 0) continue;
    if (load.child !== child) {`,
    replacement: `    if (at < 0) continue;
    if (load.child < 0) {`,
  },
  {
    name: 'draining-rows',
    why: 'requests that have ended keep rows that others need',
    file: 'src/scheduler/schedule/waiting-pass.ts',
    text: '(lacksRow && reclaimRow(s)) || ',
    replacement: '',
  },
  {
    name: 'connector-deadline',
    why: 'a connector may ask for patience for ever',
    file: 'src/scheduler/life/wait-for-connector.ts',
    text: `    startDeadline(s, request, s.config.deadlines.load);
`,
    replacement: '',
  },
  {
    name: 'freed-twice',
    why: 'blocks that were kept for a transfer are given back twice',
    file: 'src/scheduler/life/finish.ts',
    text: `    request.keptBlocks = null;
`,
    replacement: '',
  },
  {
    name: 'placeholders',
    why: 'what was dropped of steps in flight is expected all the same',
    file: 'src/scheduler/life/preempt.ts',
    text: `  request.numOutputPlaceholders = 0;
`,
    replacement: '',
  },
];

/** The eight that the design names. */
export const REQUIRED = ['F1', 'F5', 'F10', 'F11', 'F15', 'F29', 'F38', 'F42'];
