// The faults that the reference executor found, and their error.
import { BlockstepError, show } from '../../base/errors.js';
import {
  FINDING_NUMBERS,
  MAX_FINDINGS,
  MISMATCHES,
  type MismatchKind,
  StepControl,
  type StepIo,
} from '../../core/native/native-reference.js';
import type { ExecutorPlan } from '../../engine/executor/executor.js';

/**
 * One fault that a `ReferenceExecutor` found. A field that does not apply is null.
 *
 * Faults of the tables, compared with the plan and the request's own tokens:
 * - `unknown-request`: a running entry of a request that was never admitted.
 * - `query-start`, `computed-tokens`, `sequence-length`: a wrong count in the tables.
 * - `scheduled-tokens`: more or fewer tokens to compute than there are.
 * - `input-token`: another token than the request has there.
 * - `missing-draft`: a draft to verify that nobody made.
 * - `slot`, `block`: a place that cannot be.
 * - `moved-block`: a block in a row changed while its request was resident.
 *
 * Faults of the KV memory:
 * - `foreign-write`: a write into a block that another request took.
 * - `unwritten-read`: a read of a place that nobody ever wrote.
 * - `stale-read`: a read of content from before the block was taken last.
 * - `foreign-read`: a read of content that another request wrote.
 * - `wrong-read`: the request itself wrote the content, for another position or another text.
 * - `unexpected-load`: a lane filled a block after its request took it, or after it was declared to
 *   be loaded.
 * - With `kvGroups`, `null-read`: a read of a place that holds nothing (there `block` is 0).
 * - With `kvGroups`, `unzeroed-read`: a block of attention has a state behind the text, because the
 *   block was not zeroed when it was taken (`ExecutorPlan.blocksToZero`).
 */
export interface ReferenceFault {
  /** Kind of the fault; see above. */
  kind: MismatchKind;
  /** Number of the step's plan. */
  step: number;
  /** Index of the entry in the plan. */
  entry: number;
  /** External id of the entry's request. */
  id: string;
  /** Handle of the entry's request. */
  handle: number;
  /** Position in the sequence, in tokens. */
  position: number | null;
  /** Id of the block. */
  block: number | null;
  /** The expected token, or count. */
  expected: number | null;
  /** The token, or count, found instead. */
  found: number | null;
  /** Position for which the found content had been written. */
  foundPosition: number | null;
  /** Handle of the request that wrote the found content, or that took the block. */
  owner: number | null;
  /** How often the block had been taken until now. */
  generation: number | null;
  /** How often the block had been taken when the found content was written. */
  foundGeneration: number | null;
  /** With `kvGroups`: index of the group. */
  group: number | null;
  /** With `kvGroups`: the place of `position` in the group's row. */
  place: number | null;
}

/** The faults of a step that was just computed: at most `MAX_FINDINGS` of them. */
export function readFaults({ control, findings }: StepIo, plan: ExecutorPlan): ReferenceFault[] {
  const count = Math.min(control[StepControl.numFindings], MAX_FINDINGS);
  return Array.from({ length: count }, (_, i) => {
    const [kind, entry, handle, ...rest] = findings.subarray(i * FINDING_NUMBERS, (i + 1) * FINDING_NUMBERS);
    const [
      position,
      block,
      expected,
      found,
      foundPosition,
      owner,
      generation,
      foundGeneration,
      group,
      place,
    ] = rest.map((value) => (value < 0 ? null : value));
    return {
      kind: MISMATCHES[kind],
      step: plan.step,
      entry,
      id: plan.requests[entry].id,
      handle,
      position,
      block,
      expected,
      found,
      foundPosition,
      owner: owner === 0 ? null : owner,
      generation,
      foundGeneration,
      group,
      place,
    };
  });
}

/** One fault as a line of text. */
export function describeFault(fault: ReferenceFault): string {
  const { kind, entry, id, handle, position, block, expected, found, owner } = fault;
  const at = position === null ? '' : ` at position ${position}`;
  const row = fault.group === null ? '' : ` in place ${fault.place} of group ${fault.group}`;
  const where = block === null ? '' : ` in block ${block}`;
  const wanted = expected === null ? '' : `, expected ${expected}`;
  const got = found === null ? '' : `, found ${found}`;
  const of = fault.foundPosition === null ? '' : ` of position ${fault.foundPosition}`;
  const by = owner === null ? '' : `, owner ${owner}`;
  const now = fault.generation === null ? '' : `, generation ${fault.generation}`;
  const then = fault.foundGeneration === null ? '' : ` and not ${fault.foundGeneration}`;
  return `${kind} by entry ${entry} (${show(id)}, handle ${handle})${at}${row}${where}${wanted}${got}${of}${by}${now}${then}`;
}

/**
 * The error of a step with faults; its `cause` is the list `faults`.
 * @param total number of faults, those not kept included
 */
export function mismatchError(faults: readonly ReferenceFault[], total: number): BlockstepError {
  const more = total > 3 ? `; and ${total - 3} more` : '';
  const message = `step ${faults[0].step}: ${faults.slice(0, 3).map(describeFault).join('; ')}${more}`;
  return new BlockstepError('ERR_BLOCKSTEP_KV_MISMATCH', message, { cause: faults });
}
