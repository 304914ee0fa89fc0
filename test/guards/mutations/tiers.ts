// F40, F41, F42, F43: resets, and connectors made of several children.
import type { Mutation } from './mutation.js';

const reset = 'test/guards/reset.test.ts';
const children = 'test/guards/children.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F40',
    file: 'src/scheduler/calls/prefix-reset.ts',
    find: 'const local = !isKept && s.core.native.reset();',
    replace:
      "const local = !isKept && s.core.native.reset();\n  if (!local && resetRunning) throw new Error('blocks are in use');",
    test: reset,
    means: 'a forced reset throws, as in vLLM',
  },
  {
    failure: 'F40',
    file: 'src/scheduler/calls/prefix-reset.ts',
    find: 'const all = [...s.requests.values(), ...s.draining, ...s.quarantined];',
    replace: 'const all = [...s.requests.values()];',
    test: reset,
    means: 'what drains is not named',
  },
  {
    failure: 'F40',
    file: 'src/scheduler/calls/prefix-reset.ts',
    find: 'keptBlocks !== null || hasRows',
    replace: '(keptBlocks !== null && slot < 0) || hasRows',
    test: reset,
    means: 'who left used blocks behind is not named',
  },
  {
    failure: 'F41',
    file: 'src/scheduler/calls/prefix-reset.ts',
    find: 'const ok = local && connector !== false;',
    replace: 'const ok = local;',
    test: reset,
    means: 'a tier that kept its content counts as reset',
  },
  {
    failure: 'F41',
    file: 'src/scheduler/calls/prefix-reset.ts',
    find: 'const connector = local && resetConnector ? (s.connector?.askReset() ?? null) : null;',
    replace: 'const connector = resetConnector ? (s.connector?.askReset() ?? null) : null;',
    test: reset,
    means: 'one tier is reset alone',
  },
  {
    failure: 'F42',
    file: 'src/scheduler/loads/reports.ts',
    find: "request.outstanding?.remove('load', peer(child, rank))",
    replace:
      "request.outstanding?.removeWhere('load', (owner) => owner.endsWith(`rank ${rank}`) && child >= 0)",
    test: children,
    means: 'any child ends a load',
  },
  {
    failure: 'F42',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 'load.child === child && (step',
    replace: 'child >= 0 && (step',
    test: children,
    means: 'any child fails a load',
  },
  {
    failure: 'F42',
    file: 'src/scheduler/loads/begin-load.ts',
    find: '{ child: match.child, step',
    replace: '{ child: 0, step',
    test: children,
    means: 'the first child owns every load',
  },
  {
    failure: 'F42',
    file: 'src/scheduler/request/outstanding.ts',
    find: '(child === undefined || Number(match[1]) === child)',
    replace: '(child === undefined || child >= 0)',
    test: children,
    means: 'a fence of one child fences all',
  },
  {
    failure: 'F43',
    file: 'src/scheduler/connector/ask-connector.ts',
    find: 'return s.connector?.reporters[child] ?? [];',
    replace: 'return child >= 0 ? (s.connector?.reporters[0] ?? []) : [];',
    test: children,
    means: 'every child is expected on every rank',
  },
  {
    failure: 'F43',
    file: 'src/scheduler/loads/begin-load.ts',
    find: '  startDeadline(s, request, s.config.deadlines.load);\n',
    replace: '',
    test: children,
    means: 'a load may take for ever',
  },
  {
    failure: 'F43',
    file: 'src/scheduler/life/finish.ts',
    find: '  if (reclaim > 0) s.deadlines.limitWait(request, s.now + reclaim);\n',
    replace: '  void reclaim;\n',
    test: children,
    means: 'a send may take for ever',
  },
];
