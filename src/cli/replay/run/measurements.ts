import type { StepOutputs } from '../../../scheduler/plan/step-outputs.js';
import type { Request } from '../../../scheduler/request/request.js';
import { type FinishCode, finishReasonOf } from '../../../scheduler/request/status.js';
import { Histogram } from './histogram.js';

/**
 * The counts of a replay. Times of requests are virtual milliseconds, times of the scheduler real
 * microseconds.
 */
export class Measurements {
  steps = 0;
  /** Requests that ended by themselves (not by an abort), by reason. */
  readonly finished = { stop: 0, length: 0, error: 0 };
  aborted = 0;
  /** Planned aborts that came after the end of their requests. */
  abortsTooLate = 0;
  /** Requests that the scheduler refused when they were added, by error code. */
  readonly refused: Record<string, number> = {};
  /** Prompt tokens of the requests that were added. */
  promptTokens = 0;
  generatedTokens = 0;
  /** From arrival to the first token. */
  readonly ttftMs = new Histogram();
  /** Mean time between the tokens of a request that finished with two or more. */
  readonly tpotMs = new Histogram();
  /** From arrival to the last token, for requests that finished. */
  readonly e2eMs = new Histogram();
  /** Time of schedule() and update() together, per step. */
  readonly stepUs = new Histogram();

  get numFinished(): number {
    return this.finished.stop + this.finished.length + this.finished.error;
  }

  get numRefused(): number {
    return Object.values(this.refused).reduce((sum, count) => sum + count, 0);
  }

  /** Requests that reached an end of any kind. */
  get numEnded(): number {
    return this.numFinished + this.aborted + this.numRefused;
  }

  refuse(code: string): void {
    this.refused[code] = (this.refused[code] ?? 0) + 1;
  }

  /**
   * Counts the outputs of an update at `nowMs`, and calls `onFinish` for each request that ended.
   */
  deliver(outputs: StepOutputs, nowMs: number, onFinish: (request: Request) => void): void {
    for (let i = 0; i < outputs.length; i++) {
      const request = outputs.requests[i];
      const count = outputs.tokenCounts[i];
      this.generatedTokens += count;
      if (count > 0 && request.numOutputTokens === count) this.ttftMs.record(nowMs - request.arrivalTime);
      if (outputs.finishReasons[i] === 0) continue;
      this.#finish(request, outputs.finishReasons[i] as FinishCode, nowMs);
      onFinish(request);
    }
  }

  #finish(request: Request, reason: FinishCode, nowMs: number): void {
    const name = finishReasonOf(reason);
    // Aborts are counted at the call of `abort`; they bring no output.
    if (name !== null && name !== 'abort') this.finished[name]++;
    this.e2eMs.record(nowMs - request.arrivalTime);
    if (request.numOutputTokens > 1) {
      this.tpotMs.record((nowMs - request.firstTokenAt) / (request.numOutputTokens - 1));
    }
  }
}
