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

/** Reads the health of the stages. @param stages null: it is elsewhere, and is well as long as it answers */
export function readHealth(
  phase: Phase,
  names: readonly string[],
  stages: readonly (Stage | null)[],
  orchestrator: Orchestrator,
): PipelineHealth {
  if (phase === 'disposed') return { healthy: false, state: phase, reasons: ['the pipeline was shut down'] };
  let state: PipelineHealth['state'] = phase;
  const reasons = stages.flatMap((stage, i) => {
    if (stage === null) {
      const silentMs = orchestrator.goneFor(i);
      return silentMs === null
        ? []
        : [`stage ${names[i]}: it has not answered for ${Math.round(silentMs)} ms`];
    }
    const health = stage.engine.health();
    if (health.state === 'broken') state = 'broken';
    return health.reasons.map((reason) => `stage ${names[i]}: ${reason}`);
  });
  return { healthy: reasons.length === 0, state, reasons };
}
