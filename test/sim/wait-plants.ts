// Bugs to be planted in waits and their deadlines.
import type { Plant } from './shared/plant.js';

/**
 * Waits and their deadlines: the code that begins, limits or ends each, taken out. The simulation
 * of the scheduler must miss it.
 */
export const WAIT_PLANTS: readonly Plant[] = [
  {
    name: 'wait-again-deadline',
    why: 'a load held again after it was done has no deadline',
    file: 'src/scheduler/loads/hold.ts',
    text: '  startDeadline(s, request, s.config.deadlines.load);\n',
    replacement: '',
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
    file: 'src/scheduler/life/wait-for-grammar.ts',
    text: `  startDeadline(s, request, s.config.deadlines.grammar);
`,
    replacement: `  void startDeadline;
`,
  },
  {
    name: 'grammar-not-asked',
    why: 'a request ends at the deadline of its grammar, which no step has asked',
    file: 'src/scheduler/life/expiry.ts',
    text: 'if (!waits) return false;',
    replacement: 'if (waits || !waits) return false;',
  },
  {
    name: 'connector-deadline',
    why: 'a connector may ask for patience for ever',
    file: 'src/scheduler/life/wait-for-connector.ts',
    text: 'const { load } = s.config.deadlines;',
    replacement: 'const load = 0;',
  },
  {
    name: 'asked-for-the-last-time',
    why: 'a request that its connector is not asked about any more still waits for it',
    file: 'src/scheduler/life/wait-for-connector.ts',
    text: '  request.asksLater = false;\n',
    replacement: '',
  },
];
