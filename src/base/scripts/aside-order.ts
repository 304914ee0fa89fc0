/** What `Aside` orders. */
export interface Order {
  /** URL of the module. */
  readonly module: string;
  readonly name: string;
  readonly input: unknown;
  readonly maxOutput: number;
}

/** What came of it. */
export type Answer =
  | { readonly output: unknown }
  | { readonly name: string; readonly message: string; readonly code?: string; readonly isTooLong?: true };

/** What the process says when it has loaded the module of a task. */
export const LOADED = 'loaded';
