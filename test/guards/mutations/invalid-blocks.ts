import type { Mutation } from './mutation.js';

const test = 'test/guards/invalid-blocks.test.ts';
const inFlight = 'test/scheduler/loads/failed-in-flight.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F19',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 'if (evicts) evictRow(s, request, firstOwn, bad);',
    replace: '',
    test,
    means: 'what did not come can be found',
  },
  {
    failure: 'F19',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 'dropOutputs(s, request, plan);\n    request.numDraftTokens = 0;',
    replace: '',
    test,
    means: 'what was sampled from it goes to the client',
  },
  {
    failure: 'F20',
    file: 'src/scheduler/loads/bad-blocks.ts',
    find: 'request.numComputedTokens = Math.min(request.numComputedTokens, tokensKept(s, request, firstBad));',
    replace: '',
    test,
    means: 'what did not come counts as computed',
  },
  {
    failure: 'F20',
    file: 'src/scheduler/life/loading.ts',
    find: 's.core.push(PendingOp.publish, request.slot, request.numComputedTokens);',
    replace: `const all = 4 * s.core.blocks(request.slot).length;
    s.core.push(PendingOp.publish, request.slot, Math.min(all, request.numTokens));`,
    test,
    means: 'what did not come can be found',
  },
  {
    failure: 'F20',
    file: 'src/scheduler/life/loading.ts',
    find: 'if (request.numComputedTokens === 0) giveBlocksBack(s, request, false);',
    replace: 'if (s.step < 0) giveBlocksBack(s, request);',
    test,
    means: 'a request of which nothing came keeps its blocks, and is not looked up',
  },
  {
    failure: 'F21',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 'else if (deviations.sharersWait) recomputeSharers(s, plan, bad, owners);',
    replace: '',
    test,
    means: 'sharers go on',
  },
  {
    failure: 'F22',
    file: 'src/scheduler/loads/load-failure.ts',
    find: 's.core.native.blockGeneration(id) === load.generations[at]',
    replace: 's.core.native.blockGeneration(id) >= load.generations[at]',
    test,
    means: 'whose block it is now does not matter',
  },
  {
    failure: 'F22',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '  else {\n    const isRace = handle',
    replace: "  else if (!(block >= 0)) throw new Error('no block');\n  else {\n    const isRace = handle",
    test,
    means: 'a block that is none is an error',
  },
  {
    failure: 'F22',
    file: 'src/scheduler/loads/bad-blocks.ts',
    find: 'request.numComputedTokens = Math.min(request.numComputedTokens, tokensKept(s, request, firstBad));',
    replace: 'request.numComputedTokens = tokensKept(s, request, firstBad);',
    test,
    means: 'the last piece of a report counts',
  },
  {
    failure: 'F19',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '(traceless || someSharerLeft(s, plan, known))',
    replace: 'someSharerLeft(s, plan, known)',
    test: inFlight,
    means: 'what a load left can be found where its row failed too',
  },
  {
    failure: 'F19',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '      if (at < 0) continue;\n',
    replace: '      if (at < 0 || known || reassigned) continue;\n',
    test: inFlight,
    means: 'of the loads that were to fill a block the first alone fails',
  },
  {
    failure: 'F20',
    file: 'src/scheduler/life/loading.ts',
    find: 'keepsAll ? load.localTokens : 0',
    replace: 'keepsAll ? 0 * load.localTokens : 0',
    test: inFlight,
    means: 'what was found here is lost with what was to be loaded',
  },
];
