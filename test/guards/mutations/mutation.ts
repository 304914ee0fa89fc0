/** One guard taken out of the real source: the tests of its failure must turn red. */
export interface Mutation {
  /** The failure that the guard is for, `F10`. The names of its tests have that word. */
  failure: string;
  /** From the root of the repository. */
  file: string;
  /** Must occur exactly once in the file. */
  find: string;
  replace: string;
  /** The file of the tests. */
  test: string;
  /** More edits, where one guard stands behind another and neither alone is missed. */
  also?: readonly Edit[];
  /** The behaviour of the mutated source, in a few words. */
  means?: string;
}

export type Edit = Pick<Mutation, 'file' | 'find' | 'replace'>;
