/** The client's view of one of its requests. */
export interface RequestState {
  /** Chunks that came out at the end of the last stage. */
  readonly chunks: number;
  /** How it ended; null while it goes on. */
  readonly outcome: null | 'completed' | 'aborted' | 'error';
}

/**
 * A pipeline of three stages under test, in virtual time. Everything in it is decided by the seeds that it is given: two
 * runs are equal.
 */
export interface Subject {
  /**
   * Submits a request to all stages. An id that was submitted before names a new request.
   * @param seed decides how many tokens and chunks it has
   */
  submit(id: string, seed: number): void;
  /** The client goes away. The stages hear of it at unrelated ticks. */
  abort(id: string): void;
  /** One tick of virtual time. */
  advance(): void | Promise<void>;
  /** The state of the request that has this id now. */
  read(id: string): RequestState;
  /** Why an engine of the pipeline died; null = none did. From then on nothing goes on. */
  readonly died: string | null;
  /**
   * The counts of the events that guards found so far, by guard. A guard that found nothing has no
   * entry.
   */
  readonly guards: Readonly<Record<string, number>>;
  /** Places among the running requests, of all stages, that requests hold which nobody knows any more. */
  readonly lostPlaces: number;
  /** Whether the subject keeps requests apart that have the same id one after the other. Default false. */
  readonly reusesIds?: boolean;
  /** Checks invariants, where the subject has a check of its own; throws. */
  verify?(): void;
  /** Frees what the subject holds. */
  dispose?(): void;
}

/** The options of a subject. */
export interface SubjectOptions {
  /** Most requests that run at once, in each stage. */
  readonly maxNumSeqs: number;
  /** Decides when chunks and aborts arrive. */
  readonly seed: number;
  /**
   * Chunks that the first stage makes of its answer. The stage makes one, as with the short prompts
   * of a test, or up to so many, by the seed of each request. Default 1.
   */
  readonly textChunks?: number;
  /**
   * Answers are so short that the second stage may be done with a request when its second chunk comes out. Default false:
   * it is still at work then.
   */
  readonly shortAnswers?: boolean;
}
