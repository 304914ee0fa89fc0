/** A block that a request dropped in the step of a plan, because no later token reads it. */
export interface LetGo {
  readonly slot: number;
  readonly block: number;
  readonly group: number;
  /** The block's place in the group's row. */
  readonly place: number;
  /** The block's generation at that time. It changes as soon as the block is taken again. */
  readonly generation: number;
}

/** The blocks that a step's plan dropped, as `NativeCore.drainDropped` gives them. */
export interface StepLetGo {
  readonly step: number;
  readonly letGo: Int32Array;
}

/** An empty list of blocks, which all plans share. */
export const NO_BLOCKS: Int32Array = new Int32Array(0);

/** The number of fields per block in `Plan.letGo`, in the order of `LetGo`'s fields. */
const NUM_FIELDS = 5;

/** The id of each block of a `Plan.letGo`. */
export function blocksLetGo(letGo: Int32Array): Int32Array {
  return letGo.filter((_, i) => i % NUM_FIELDS === 1);
}

/** The blocks that the plan dropped, in order. */
export function letGoBy({ letGo }: StepLetGo): LetGo[] {
  const all: LetGo[] = [];
  for (let i = 0; i < letGo.length; i += NUM_FIELDS) {
    const [slot, block, group, place, generation] = letGo.subarray(i, i + NUM_FIELDS);
    all.push({ slot, block, group, place, generation: generation >>> 0 });
  }
  return all;
}
