/** How an entry came into a plan: running already, newly admitted, or admitted again after a preemption. */
export const EntryKind = {
  /** The request was running when the step was planned. */
  running: 0,
  /** The request was admitted for the first time, or for the next chunk of its session. */
  new: 1,
  /** The request was admitted again after a preemption. */
  resumed: 2,
} as const;
export type EntryKind = (typeof EntryKind)[keyof typeof EntryKind];
