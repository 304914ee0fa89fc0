// F31, F32: leases.
import type { Mutation } from './mutation.js';

const test = 'test/guards/leases.test.ts';

export const mutations: readonly Mutation[] = [
  {
    failure: 'F31',
    file: 'src/transfer/leases.ts',
    find: '      this.#heap.remove(lease);\n      lease.deadline = deadline;\n      this.#heap.insert(lease);',
    replace: '      lease.deadline = deadline;',
    test,
    means: 'a renewed lease keeps its place',
  },
  {
    failure: 'F32',
    file: 'src/transfer/leases.ts',
    find: 'if (lease !== undefined && lease.deadline > now) return lease;',
    replace: 'if (lease !== undefined && now >= 0) return lease;',
    test,
    means: 'a lease lasts until somebody sweeps it',
  },
  {
    failure: 'F32',
    file: 'src/scheduler/loads/load-failure.ts',
    find: '    loseLoad(s, request);\n    // Nothing',
    replace: '    if (request.slot < 0) loseLoad(s, request);\n    // Nothing',
    test,
    means: 'what was refused counts as read',
  },
];
