/**
 * The answer of `buildMetadata` when some children could not make metadata. The loads of this plan
 * that belong to these children never begin, and count as failed. The other children continue with
 * the metadata given here.
 */
export class PartialMetadata<Metadata = unknown> {
  constructor(
    /** The metadata of the other children, for the workers. */
    readonly metadata: Metadata,
    /** Indexes of the children that could not make metadata. */
    readonly failedChildren: readonly number[],
    /** The errors of these children. */ readonly cause?: unknown,
  ) {}
}
