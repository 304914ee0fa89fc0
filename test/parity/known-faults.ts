import type { Difference } from './compare.js';
import { replay } from './driver.js';
import type { Faults } from './reference/kv/faults.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import type { Trace } from './trace.js';

/** A recorded trace in which vLLM is unsound. blockstep does not follow it there, and no switch makes it. */
export interface KnownFault {
  readonly fault: keyof Faults;
  readonly why: string;
  /** Where vLLM and blockstep part: the path of the first difference begins so. */
  readonly begins: string;
}

const SHARED_HIT: Pick<KnownFault, 'fault' | 'why'> = {
  fault: 'G16',
  why: 'a block is taken to load into that is a hit of another group, and stands in two rows (vLLM #33775)',
};

/** By the name that the trace has. */
const KNOWN: Readonly<Record<string, KnownFault>> = {
  g27_conn_tight_local_and_external_hits: { ...SHARED_HIT, begins: 'steps[82].' },
  cut10: { ...SHARED_HIT, begins: 'steps[33].' },
};

/**
 * The fault of vLLM that explains why a trace cannot be replayed. Null: none does, that is, the trace is not listed, the first difference stands
 * elsewhere, or the reference differs too when it has the fault.
 */
export function faultIn(trace: Trace, [first]: readonly Difference[]): KnownFault | null {
  const known = Object.hasOwn(KNOWN, trace.name) ? KNOWN[trace.name] : undefined;
  if (known === undefined || !first?.path.startsWith(known.begins)) return null;
  const unsound = replay(trace, (options) => new ReferenceScheduler(options, { [known.fault]: true }));
  return unsound.differences.length === 0 ? known : null;
}
