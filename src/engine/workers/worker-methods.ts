import { badArgument, show } from '../../base/errors.js';
import { type Bound, bindMethods } from '../../base/foreign/foreign-method.js';

const REQUIRED = ['getFinished'] as const;
const OPTIONAL = ['handlePreemptions', 'startLoads', 'startStores', 'onStepSettled', 'shutdown'] as const;

/** The methods of one worker that the engine calls, looked up once. */
export type WorkerMethods = Readonly<
  Record<(typeof REQUIRED)[number], Bound> & Partial<Record<(typeof OPTIONAL)[number], Bound>>
>;

/** Looks up the methods of each worker; worker i is rank i. @throws ERR_BLOCKSTEP_BAD_ARG naming the missing or wrong method */
export function bindWorkers(workers: unknown): readonly WorkerMethods[] {
  if (!Array.isArray(workers)) throw badArgument('workers', show(workers), 'an array of worker connectors');
  return workers.map((worker: unknown, rank) => {
    if (typeof worker !== 'object' || worker === null) {
      throw badArgument(`workers[${rank}]`, show(worker), 'an object with a function getFinished');
    }
    return bindMethods(`workers[${rank}]`, worker, REQUIRED, OPTIONAL);
  });
}
