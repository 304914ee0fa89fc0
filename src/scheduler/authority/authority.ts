import type { Plan } from '../plan/plan.js';

/**
 * Who makes the plans: the one door between the part that decides and everybody else. A scheduler and its engine call
 * these methods, and do not know whether the host decides or a GPU.
 */
export interface Authority {
  readonly words: AuthorityWords;

  /**
   * Makes the next plan within this call. See `Scheduler.schedule`.
   * @throws ERR_BLOCKSTEP_AUTHORITY if a plan takes more than one call
   */
  schedule(): Plan;

  /** Makes the next plan, and lets the event loop go on meanwhile. See `Scheduler.scheduleAsync`. */
  scheduleAsync(): Promise<Plan>;

  /**
   * Makes the next plan within this call, however long that takes: this thread does nothing else meanwhile.
   * @throws what `Scheduler.scheduleAsync` throws
   */
  scheduleInPlace(): Plan;

  /**
   * Makes a round of an engine within this call.
   * @throws ERR_BLOCKSTEP_AUTHORITY if a plan takes more than one call, with nothing changed; what the round throws
   */
  round<Report>(round: Round<Report>): Report;

  /** Makes a round, and lets the event loop go on while its plan is made. @throws by rejection what the round throws */
  roundAsync<Report>(round: Round<Report>): Promise<Report>;

  /**
   * Carries a round whose plan is still being made to its end, within this call. An error goes to the one who awaits
   * that round. Does nothing if there is no such round.
   */
  finishRound(): void;

  /**
   * Makes the rounds of a turn one after the other. A turn that comes while another one is under way is not made: when
   * the other one is over, its `again` is called.
   */
  turn<Report>(turn: Turn<Report>): void;
}

/** What a client is told about the next step. */
export interface AuthorityWords {
  /** The call by which a client makes a step. */
  readonly call: string;
  /** What happens to a request that waits for nothing else. */
  readonly next: string;
  /** What the next step itself waits for at this moment; null = nothing. */
  readonly now: string | null;
}

/** A round of an engine: what it does before a plan is made, and what it does with the plan. */
export interface Round<Report> {
  /** Checks that a round may be made now. @throws if it may not, with nothing changed */
  check(): void;
  /**
   * Runs a part of the round. Everything that belongs to the round runs in such a part.
   * @throws the error of `act`, as the callers of the round are to see it
   */
  part<T>(act: () => T): T;
  /** Everything before the plan. @returns whether a plan is to be made */
  begin(): boolean;
  /** Everything after the plan. @param plan null = none was to be made */
  end(plan: Plan | null): Report;
}

/** A turn of a run loop: some rounds, each of which depends on the report of the one before. */
export interface Turn<Report> {
  /** Yields each round, and is resumed with its report, or with the error that the round threw. */
  rounds(): Generator<Round<Report>, Report | null, Report>;
  /** Called when the turn is over. @param report what `rounds` returned */
  ended(report: Report | null): void;
  /** Called after `ended` if another turn was asked for meanwhile. */
  again(): void;
}
