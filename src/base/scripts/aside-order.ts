// The messages between a process and the one that runs its long tasks aside.

/** A task for the process of an `Aside`. */
export interface Order {
  /** URL of the module. */
  readonly module: string;
  readonly name: string;
  readonly input: unknown;
  readonly maxOutput: number;
}

/** The result of a task. */
export type Answer =
  | { readonly output: unknown }
  | { readonly name: string; readonly message: string; readonly code?: string; readonly isTooLong?: true };

/** The message of the process once it has loaded the module of a task. */
export const LOADED = 'loaded';
