// The pipelines with and without each guard; to add a pipeline, add a list here.
import { boundaryGuards } from '../../../src/scheduler/lend/boundary-guards.js';
import { ALL_GUARDS, NO_GUARDS, type ReportedGuards } from './as-reported/reported-guards.js';
import { ReportedPipeline } from './as-reported/reported-pipeline.js';
import { BorrowingPipeline } from './ours/borrowing-pipeline.js';
import { OwnPipeline } from './own/own-pipeline.js';
import type { Subject, SubjectOptions } from './subject.js';

/** A pipeline with or without some of its guards: one line of a table. */
export interface Variant {
  readonly name: string;
  make(options: SubjectOptions): Subject;
  /** Runs `act` with the guards of this line. Default: just runs it. */
  during?<T>(act: () => Promise<T>): Promise<T>;
}

const GET_AND_SKIP: ReportedGuards = { ...NO_GUARDS, getAndSkip: true };
const PURGE = { purgeAtProcess: true, purgeAtRestore: true };

/** Table 1: as it was reported. */
export const AS_REPORTED: readonly Variant[] = [
  reported('no guard', NO_GUARDS),
  reported('get and skip', GET_AND_SKIP),
  reported('get and skip, purge', { ...GET_AND_SKIP, ...PURGE }),
  reported('get and skip, realign', { ...GET_AND_SKIP, realign: true }),
  reported('get and skip, sweep', { ...GET_AND_SKIP, sweep: true }),
  reported('get and skip, realign, sweep', { ...GET_AND_SKIP, realign: true, sweep: true }),
  reported('all guards but get and skip', { ...ALL_GUARDS, getAndSkip: false }),
  reported('all guards but the purge', { ...ALL_GUARDS, purgeAtProcess: false, purgeAtRestore: false }),
  reported('all guards', ALL_GUARDS),
];

type Guard = keyof typeof boundaryGuards;

/** Table 2: ours, with the same borrowing adapter. */
export const OURS: readonly Variant[] = [
  without('all guards', []),
  without('without the purge at processing', ['purgeAtProcess']),
  without('without the purge at restoring', ['purgeAtRestore']),
  without('without realignment', ['realign']),
  without('without the sweep', ['sweep']),
  without('without any guard', ['purgeAtProcess', 'purgeAtRestore', 'realign', 'sweep']),
];

/** Table 3: our own pipeline, which borrows nothing. */
export const OWN: readonly Variant[] = [
  { name: 'our own pipeline', make: (options) => new OwnPipeline(options) },
];

function reported(name: string, guards: ReportedGuards): Variant {
  return { name, make: (options) => new ReportedPipeline(options, guards) };
}

function without(name: string, out: readonly Guard[]): Variant {
  return {
    name,
    make: (options) => new BorrowingPipeline(options),
    during: (act) => withoutGuards(out, act),
  };
}

/** Runs `act` while these guards of our own boundary do nothing. */
export async function withoutGuards<T>(out: readonly Guard[], act: () => Promise<T>): Promise<T> {
  const before = { ...boundaryGuards };
  for (const guard of out) Object.assign(boundaryGuards, { [guard]: () => 0 });
  try {
    return await act();
  } finally {
    Object.assign(boundaryGuards, before);
  }
}
