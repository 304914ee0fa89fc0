import { joined } from '../../base/arrays.js';
import { describeError } from '../../base/errors.js';
import { enterCallee, leaveCallee } from '../../base/foreign/callee.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { EngineState } from '../state/engine-state.js';

const NO_BLOCKS = new Int32Array(0);

/**
 * The ends and preemptions of requests that the executor must learn of. Empty plans never reach the
 * executor, so their ends and preemptions are added to the next plan that does.
 * `Executor.requestsFinished` receives each end once, also the last ends, which no plan follows.
 */
export class Notices {
  readonly #e: EngineState;
  #finished: string[] = [];
  #finishedHandles: number[] = [];
  #preempted: string[] = [];
  #preemptedHandles: number[] = [];
  #taken: Int32Array = NO_BLOCKS;
  #dropped: Int32Array = NO_BLOCKS;
  #forgotten: Int32Array = NO_BLOCKS;
  /**
   * Ends that `requestsFinished` has not received yet, by the step whose plan contained them. The
   * plans of that step and of later steps do not schedule these requests.
   */
  #untold: { readonly step: number; readonly handles: readonly number[] }[] = [];

  constructor(e: EngineState) {
    this.#e = e;
  }

  /** Notes the ends in a new plan. */
  planned({ step, finishedHandles: handles }: Plan): void {
    if (this.#e.config.requestsFinished === null || handles.length === 0) return;
    this.#untold.push({ step, handles });
  }

  /**
   * Keeps the ends, preemptions and blocks in an empty plan. @returns whether it names ended or
   * preempted requests
   */
  keep({
    finished,
    finishedHandles,
    preempted,
    preemptedHandles,
    takenBlocks,
    droppedBlocks,
    forgottenBlocks,
  }: Plan): boolean {
    if (this.#e.config.watchesBlocks) {
      this.#taken = joined(this.#taken, takenBlocks);
      this.#dropped = joined(this.#dropped, droppedBlocks);
      this.#forgotten = joined(this.#forgotten, forgottenBlocks);
    }
    if (finishedHandles.length + preempted.length === 0) return false;
    this.#finished = this.#finished.concat(finished);
    this.#finishedHandles = this.#finishedHandles.concat(finishedHandles);
    this.#preempted = this.#preempted.concat(preempted);
    this.#preemptedHandles = this.#preemptedHandles.concat(preemptedHandles);
    return true;
  }

  /**
   * Adds the kept ends, preemptions and blocks to a plan for the executor. An id under which two
   * requests ended appears once.
   */
  addTo(plan: Plan): void {
    if (this.#taken.length + this.#dropped.length + this.#forgotten.length > 0) {
      plan.takenBlocks = joined(this.#taken, plan.takenBlocks);
      plan.droppedBlocks = joined(plan.droppedBlocks, this.#dropped);
      plan.forgottenBlocks = joined(this.#forgotten, plan.forgottenBlocks);
      this.#taken = NO_BLOCKS;
      this.#dropped = NO_BLOCKS;
      this.#forgotten = NO_BLOCKS;
    }
    if (this.#finishedHandles.length + this.#preempted.length === 0) return;
    plan.finished = [...new Set([...this.#finished, ...plan.finished])];
    plan.finishedHandles = this.#finishedHandles.concat(plan.finishedHandles);
    plan.preempted = this.#preempted.concat(plan.preempted);
    plan.preemptedHandles = this.#preemptedHandles.concat(plan.preemptedHandles);
    this.#finished = [];
    this.#finishedHandles = [];
    this.#preempted = [];
    this.#preemptedHandles = [];
  }

  /**
   * Tells the executor which requests have ended, once no step in flight contains them. An error of
   * the executor is only counted (`wrongAnswers`).
   */
  tell(): void {
    const { flight } = this.#e;
    const isOver = (step: number): boolean => flight.length === 0 || step <= flight[0].number;
    if (this.#untold.length === 0 || !isOver(this.#untold[0].step)) return;
    const over = this.#untold.filter(({ step }) => isOver(step));
    this.#untold = this.#untold.slice(over.length);
    const handles = over.flatMap((each) => each.handles);
    const count = (error: unknown): void => {
      this.#e.countWrongAnswer(-1, `requestsFinished: ${describeError(error)}`);
    };
    const before = enterCallee('executor.requestsFinished');
    try {
      const answer = this.#e.config.requestsFinished?.(handles);
      // An unhandled rejection would end the process.
      if (typeof answer === 'object') Promise.resolve(answer).catch(count);
    } catch (error) {
      count(error);
    } finally {
      leaveCallee(before);
    }
  }
}
