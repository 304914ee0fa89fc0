import type { Plan } from '../plan/plan.js';
import type { Authority, Round, Turn } from './authority.js';

/** The host decides: every plan is made within the call that asks for it. */
export class HostAuthority implements Authority {
  readonly words = { call: 'step()', next: 'the next step decides', now: null };
  readonly #schedule: () => Plan;

  /** @param schedule makes the next plan */
  constructor(schedule: () => Plan) {
    this.#schedule = schedule;
  }

  schedule(): Plan {
    return this.#schedule();
  }

  scheduleAsync(): Promise<Plan> {
    return new Promise((resolve) => resolve(this.#schedule()));
  }

  scheduleInPlace(): Plan {
    return this.#schedule();
  }

  round<Report>(round: Round<Report>): Report {
    round.check();
    return round.part(() => round.end(round.begin() ? this.#schedule() : null));
  }

  roundAsync<Report>(round: Round<Report>): Promise<Report> {
    return new Promise((resolve) => resolve(this.round(round)));
  }

  finishRound(): void {
    // No round outlasts its call.
  }

  turn<Report>(turn: Turn<Report>): void {
    const rounds = turn.rounds();
    let next = rounds.next();
    while (next.done !== true) {
      let report: Report;
      try {
        report = this.round(next.value);
      } catch (error) {
        next = rounds.throw(error);
        continue;
      }
      next = rounds.next(report);
    }
    turn.ended(next.value);
  }
}
