import type { RequestState } from '../subject.js';

/** The orchestrator's side of the clients: the output of each request, and its end. */
export class Clients {
  readonly #open = new Map<string, { chunks: number; outcome: RequestState['outcome'] }>();
  /** Outputs for requests that nobody waits for any more. */
  dropped = 0;

  begin(id: string): void {
    this.#open.set(id, { chunks: 0, outcome: null });
  }

  /** @returns whether anybody still waits for it */
  abort(id: string): boolean {
    const request = this.#open.get(id);
    if (request === undefined || request.outcome !== null) return false;
    request.outcome = 'aborted';
    return true;
  }

  /** A chunk came out of the last stage. Out of order it is an error of the request. */
  sound(id: string, index: number, finished: boolean): void {
    const request = this.#open.get(id);
    if (request === undefined || request.outcome !== null) {
      this.dropped++;
      return;
    }
    if (index !== request.chunks) request.outcome = 'error';
    else if (finished) request.outcome = 'completed';
    request.chunks++;
  }

  read(id: string): RequestState {
    const request = this.#open.get(id);
    if (request === undefined) throw new Error(`nobody submitted ${id}`);
    return request;
  }
}
