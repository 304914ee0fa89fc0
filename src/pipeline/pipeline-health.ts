import type { Orchestrator } from './orchestrator/orchestrator.js';
import type { Stage } from './stage/stage.js';

/** The health of a pipeline, for operators: `Pipeline.health`. */
export interface PipelineHealth {
  /** Whether there are no `reasons`. */
  readonly healthy: boolean;
  /**
   * `draining` once a shutdown has begun; `broken` once the engine of a stage of this process refuses all further work, since every
   * request goes through it; `disposed` once the shutdown has ended.
   */
  readonly state: 'open' | 'draining' | 'broken' | 'disposed';
  /** Why the pipeline is not healthy, in words that name the stage; empty if it is. */
  readonly reasons: readonly string[];
}

/** How far a pipeline's own end has come. */
export type Phase = Exclude<PipelineHealth['state'], 'broken'>;

/** Reads the health of the stages. @param stages null: it is elsewhere, and is what it said last, as long as it answers */
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

/** What is wrong with a stage elsewhere, as far as is known. */
function troublesOf(orchestrator: Orchestrator, stage: number): readonly string[] {
  const silentMs = orchestrator.goneFor(stage);
  if (silentMs !== null) return [`it has not answered for ${Math.round(silentMs)} ms`];
  return orchestrator.figuresOf(stage)?.troubles ?? [];
}
