import type { EngineOptions } from '../../../engine/state/options.js';
import type { SchedulerOptions } from '../../../scheduler/options/options.js';
import type { ModelOptions } from '../../../serve/model/model-options.js';

/** An executor that is to be served. */
export interface ServedExecutor extends Pick<EngineOptions, 'executor' | 'connector' | 'workers'> {
  readonly model: ModelOptions;
  /** What the user should know of it, in sentences of a line each. */
  readonly notes: readonly string[];
  /** Options of the scheduler that the executor chose, where the command line did not say them. Absent: those of the command line. */
  readonly options?: SchedulerOptions;
  /** What there is to try. Default: a completion that goes on as it went on before. */
  readonly example?: { readonly path: string; readonly body: object };
  /** Frees what the engine does not know of. Called once, when the engine was disposed. */
  readonly close?: () => void;
}
