/**
 * The answer of `buildMetadata` when some children could make no metadata. The loads of this plan that belong to
 * these children never begin, and count as failed. The other children go on with the metadata given here.
 */
export class PartialMetadata<Metadata = unknown> {
  constructor(
    /** What goes to the workers with the plan: the metadata of the other children. */
    readonly metadata: Metadata,
    /** Indexes of the children that could make no metadata. */
    readonly failedChildren: readonly number[],
    /** What they threw. */ readonly cause?: unknown,
  ) {}
}
