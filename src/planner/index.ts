/**
 * The entry `blockstep/sim`: costs of steps on given hardware, fitted to measurements; engines in
 * virtual time; plans of capacity.
 *
 * @module
 */

export type { CostModel } from '../executors/cost-model/cost-model.js';
export {
  CostModelExecutor,
  type CostModelExecutorOptions,
  type TimedTokens,
} from '../executors/cost-model/cost-model-executor.js';
export type { StepCost, StepFeatures } from '../executors/cost-model/step-features.js';
export { readTrace, type Trace, type TraceOptions } from '../workload/trace.js';
export type { Workload, WorkloadColumns } from '../workload/workload.js';
export { type CalibrateInput, type Calibration, calibrate } from './calibrate.js';
export type { StepDifference, StepFit } from './fit/fit-steps.js';
export type { Composition } from './fit/iteration-log.js';
export type { Coefficients } from './model/coefficients.js';
export { GPUS, type Gpu } from './model/gpus.js';
export type { GridPoint } from './model/grid.js';
export type { Physics } from './model/physics.js';
export type { HostTime } from './model/physics-cost.js';
export {
  type FitErrors,
  type FitFacts,
  type Profile,
  type ProfileBase,
  type Provenance,
  parseProfile,
  profileCost,
  rooflineProfile,
} from './model/profile.js';
export { readProfile } from './model/profile-file.js';
export type { SeenRange } from './model/seen-range.js';
export type { CostTable } from './model/table-cost.js';
export {
  type Finalist,
  type Plan,
  type PlanInput,
  type PlannedPoint,
  plan,
  type Sensitivity,
} from './plan.js';
export { EngineRun, type EngineRunOptions, type RequestTimes } from './run/engine-run.js';
export {
  type Latency,
  type LatencySummary,
  latenciesOf,
  type Quantiles,
  type Statistic,
  summarise,
} from './run/summary.js';
export type { Capacity, FleetRun } from './sweep/evaluation.js';
export type { EngineWindow, FleetSize } from './sweep/fleet-size.js';
export { type KnobValue, type Point, parseSweep, type Sweep } from './sweep/knobs.js';
export type { Router } from './sweep/routing.js';
export type { Search } from './sweep/search.js';
export { type Condition, parseSlo } from './sweep/slo.js';
