// Recorded traces in which vLLM is unsound, with the first such step.
import type { Difference } from './compare.js';
import { replay } from './driver.js';
import { versionOf } from './options.js';
import type { Faults } from './reference/kv/faults.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import type { Trace } from './trace.js';

/** A recorded trace in which vLLM is unsound. blockstep does not follow it there, and no switch makes it. */
export interface KnownFault {
  /** Its name in the list of vLLM's faults, or what it is called here. */
  readonly fault: string;
  readonly why: string;
  /** The step in which vLLM and blockstep part. */
  readonly step: number;
}

interface Known extends KnownFault {
  /** The trace's name, and the version that it is of. */
  readonly trace: string;
  readonly version: ReturnType<typeof versionOf>;
  /** The faults that the reference must switch on to have the fault. Absent: it always has it. */
  readonly faults?: Partial<Faults>;
  /** The message with which blockstep refuses to go on. */
  readonly refusal?: string;
}

const LET_GO = {
  fault: 'lateFailure',
  version: '28be48fa',
  why:
    'a load failed into a block that a window has let go since: vLLM looks for the block in the rows of now, so that the request which loaded it ' +
    'goes on, and whoever has the block by then loses its token',
} as const;

const KNOWN: readonly Known[] = [
  { ...LET_GO, trace: 'g108', step: 1 },
  { ...LET_GO, trace: 'g156', step: 1 },
  {
    fault: 'paddedChunk',
    version: '017e9f444',
    why: 'a padded request is cut by longPrefillTokenThreshold, and counts fewer than 0 computed tokens when its drafts are taken back (vLLM #54028)',
    trace: 'g49',
    step: 1,
    refusal: 'request "r2" has -1 computed tokens',
  },
  {
    fault: 'partialHits',
    faults: { partialHits: true },
    version: '017e9f444',
    why:
      'a step ends at the last hash of a prompt, for hits that end inside a block (vLLM #45702). vLLM copies that block before the step computes, ' +
      'also where the same step fills it',
    trace: 'g5',
    step: 6,
  },
  {
    fault: 'foreignFailure',
    version: '017e9f444',
    why: 'a block is said to have failed into which nothing is loaded: vLLM computes again, or fails, whoever holds it',
    trace: 'x43009',
    step: 0,
    refusal: 'invalid-block: block 2 is not being loaded',
  },
];

/**
 * The fault of vLLM that explains why a trace cannot be replayed. Null: none does. The trace is not
 * listed, the first difference is in another step, blockstep refuses something else, or the
 * reference with the fault differs too.
 */
export function faultIn(trace: Trace, [first]: readonly Difference[]): KnownFault | null {
  const known = KNOWN.find((each) => each.trace === trace.name && each.version === versionOf(trace));
  if (known === undefined || first === undefined) return null;
  const step = /^steps\[(\d+)\]/.exec(first.path)?.[1];
  const isRefused = first.expected === 'no error';
  if (Number(step) !== known.step || isRefused !== (known.refusal !== undefined)) return null;
  if (isRefused && !String(first.got).endsWith(known.refusal as string)) return null;
  const unsound = replay(trace, (options) => new ReferenceScheduler(options, known.faults));
  return unsound.differences.length === 0 ? known : null;
}
