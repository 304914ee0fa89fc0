import type { Orchestrator } from './orchestrator/orchestrator.js';
import type { Stage } from './stage/stage.js';

/** The health of a pipeline, for operators: `Pipeline.health`. */
export interface PipelineHealth {
  /** Whether there are no `reasons`. */
  readonly healthy: boolean;
  /**
   * `draining`: a shutdown has begun. `broken`: the engine of a stage of this process refuses all
   * further work, and every request passes through that stage. `disposed`: the shutdown has ended.
   */
  readonly state: 'open' | 'draining' | 'broken' | 'disposed';
  /** Why the pipeline is not healthy, in words that name the stage; empty if it is. */
  readonly reasons: readonly string[];
}

/** The progress of a pipeline's shutdown. */
export type Phase = Exclude<PipelineHealth['state'], 'broken'>;

/**
 * Reads the health of the stages. @param stages null: the stage is in another process; its last
 * report counts while it answers
 */
export function readHealth(
  phase: Phase,
  names: readonly string[],
  stages: readonly (Stage | null)[],
  orchestrator: Orchestrator,
): PipelineHealth {
  if (phase === 'disposed') return { healthy: false, state: phase, reasons: ['the pipeline was shut down'] };
  let state: PipelineHealth['state'] = phase;
  const reasons = stages.flatMap((stage, i) => {
    if (stage?.engine.health().state === 'broken') state = 'broken';
    const troubles = stage === null ? troublesOf(orchestrator, i) : stage.engine.health().reasons;
    return troubles.map((reason) => `stage ${names[i]}: ${reason}`);
  });
  return { healthy: reasons.length === 0, state, reasons };
}

/** Lists the known troubles of a stage in another process. */
function troublesOf(orchestrator: Orchestrator, stage: number): readonly string[] {
  const silentMs = orchestrator.goneFor(stage);
  if (silentMs !== null) return [`it has not answered for ${Math.round(silentMs)} ms`];
  return orchestrator.figuresOf(stage)?.troubles ?? [];
}
