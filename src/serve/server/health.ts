import type { Engine } from '../../engine/engine.js';
import type { ServerHealth } from '../page/answers.js';

/**
 * The health of a server: the health of its engine, whether the engine is stuck, and whether the
 * server is shutting down.
 * @param wedgedMs milliseconds without a step, while requests wait for one, after which the engine
 * counts as stuck; 0 = never
 */
export function readServerHealth(engine: Engine, wedgedMs: number): ServerHealth {
  const { state, reasons } = engine.health();
  const { stillMs, sinceStepMs } = engine.progress();
  const all = [...reasons];
  if (wedgedMs > 0 && stillMs >= wedgedMs)
    all.push(`no step was answered for ${Math.round(stillMs)} ms, although requests wait for one`);
  if (state === 'draining') all.push('the server is shutting down');
  return { healthy: all.length === 0, state, reasons: all, sinceStepMs };
}
