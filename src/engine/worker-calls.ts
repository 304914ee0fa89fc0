import { badArgument, show } from '../core/errors.js';
import type { WorkerConnector } from '../scheduler/connector.js';
import { bindForeign } from '../scheduler/foreign-method.js';

const OPTIONAL = ['handlePreemptions', 'startLoads', 'startStores', 'onStepSettled', 'shutdown'] as const;

type Method = 'getFinished' | (typeof OPTIONAL)[number];
type Bound = (...args: unknown[]) => unknown;

/** The methods of one worker that the engine calls, looked up once. */
export type WorkerCalls = Partial<Record<Method, Bound>> & { readonly getFinished: Bound };

/** @throws ERR_BLOCKSTEP_BAD_ARG naming what is missing or wrong */
export function takeWorkers(workers: unknown): readonly WorkerCalls[] {
  if (!Array.isArray(workers)) throw badArgument('workers', show(workers), 'an array of worker connectors');
  return workers.map((worker: unknown, rank) => {
    if (typeof worker !== 'object' || worker === null) {
      throw badArgument(`workers[${rank}]`, show(worker), 'an object with a function getFinished');
    }
    const bind = (name: Method, isOptional: boolean): Bound | undefined => {
      const method: unknown = (worker as WorkerConnector)[name];
      if (method === undefined && isOptional) return undefined;
      if (typeof method !== 'function')
        throw badArgument(`workers[${rank}].${name}`, show(method), 'a function');
      return bindForeign(method, worker);
    };
    const calls: Partial<Record<Method, Bound>> = {};
    for (const name of OPTIONAL) {
      const bound = bind(name, true);
      if (bound !== undefined) calls[name] = bound;
    }
    return { ...calls, getFinished: bind('getFinished', false) as Bound };
  });
}
