import type { EngineOptions } from '../../../engine/state/options.js';
import type { SchedulerOptions } from '../../../scheduler/options/options.js';
import type { ModelOptions } from '../../../serve/model/model-options.js';

/** An executor for the server. */
export interface ServedExecutor extends Pick<EngineOptions, 'executor' | 'connector' | 'workers'> {
  readonly model: ModelOptions;
  /** Notes for the user, each a sentence on its own line. */
  readonly notes: readonly string[];
  /**
   * Scheduler options that the executor chose where the command line was silent. Absent: the
   * options of the command line.
   */
  readonly options?: SchedulerOptions;
  /** A request to try. Default: a completion that continues the prompt with its own text. */
  readonly example?: { readonly path: string; readonly body: object };
  /**
   * Frees resources that the engine does not know. Called once, after the disposal of the engine.
   */
  readonly close?: () => void | Promise<void>;
}
