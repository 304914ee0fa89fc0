/** A block that a request let go in the step of a plan, since no later token reads it. */
export interface LetGo {
  readonly slot: number;
  readonly block: number;
  readonly group: number;
  /** Where the block stood in the group's row. */
  readonly place: number;
  /** Generation of the block then: it has another one as soon as somebody takes it anew. */
  readonly generation: number;
}

/** What the plan of a step let go, as `NativeCore.takeDropped` gives it. */
export interface StepLetGo {
  readonly step: number;
  readonly letGo: Int32Array;
}

/** Numbers of each such block in `Plan.letGo`, in the order of `LetGo`'s fields. */
const NUM_FIELDS = 5;

/** The id of each block of a `Plan.letGo`. */
export function blocksLetGo(letGo: Int32Array): Int32Array {
  return letGo.filter((_, i) => i % NUM_FIELDS === 1);
}

/** What the plan let go, in the order in which it did. */
export function letGoBy({ letGo }: StepLetGo): LetGo[] {
  const all: LetGo[] = [];
  for (let i = 0; i < letGo.length; i += NUM_FIELDS) {
    const [slot, block, group, place, generation] = letGo.subarray(i, i + NUM_FIELDS);
    all.push({ slot, block, group, place, generation: generation >>> 0 });
  }
  return all;
}
