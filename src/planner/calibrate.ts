import { createHash } from 'node:crypto';
import { checkNumber } from '../base/checks.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import type { SchedulerOptions } from '../scheduler/options/options.js';
import { resolveOptions } from '../scheduler/options/resolve-options.js';
import type { Workload } from '../workload/workload.js';
import { fitRequests } from './fit/fit-requests.js';
import { fitSteps, type StepFit } from './fit/fit-steps.js';
import { isIterationLog, type LoggedStep, readIterationLog } from './fit/iteration-log.js';
import { checkRequests, checkSteps } from './fit/possible.js';
import { type RequestLog, readRequestLog } from './fit/request-log.js';
import type { Fitted } from './fit/search.js';
import type { Physics } from './model/physics.js';
import type { FitErrors, Profile } from './model/profile.js';

/** The input of a fit. */
export interface CalibrateInput {
  /**
   * The profile of the model and the GPU by physics alone (`rooflineProfile`), or an older fit of
   * it.
   */
  readonly prior: Profile;
  /**
   * The text of the measurement: vLLM's log with `--enable-logging-iteration-details`, or the
   * results of a load generator.
   */
  readonly text: string;
  /** Name of the measurement, for messages and for the profile. */
  readonly name: string;
  /** The requests of an iteration log, which does not contain them. */
  readonly requests?: Workload | null;
  /** The options of the measured server. */
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  /** Fraction that is fitted, the first part. The rest judges the fit. Default 0.5. */
  readonly share?: number;
  /** Starts of the optimiser. Default 2. */
  readonly starts?: number;
  /** Most evaluations of a start. Default 70. */
  readonly evaluations?: number;
  /** Version of the measured vLLM, for the profile. */
  readonly vllm?: string | null;
  /** Date of the measurement, for the profile. */
  readonly date?: string | null;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, of: number, loss: number) => void) | undefined;
}

/** A fitted profile, and facts of the fit. */
export interface Calibration {
  readonly profile: Profile & { kind: 'fitted' };
  /** The form of the measurement: `iterations`, or the form of the results. */
  readonly form: string;
  /**
   * The errors of the prior, before the fit. `profile.fit.errors` has the errors of the fit. Both
   * are those of the part that was not fitted.
   */
  readonly priorErrors: FitErrors;
  readonly simulations: number;
  /**
   * For an iteration log: the number of leading steps that were decided alike, and the first step
   * that differs.
   */
  readonly steps: Pick<StepFit, 'equalSteps' | 'steps' | 'difference'> | null;
  /** Requests of the results that are left out, because they failed or had no token. */
  readonly left: number;
}

/**
 * Fits a profile to the measurement of a server: to the iteration log of vLLM, or to the results of
 * a load generator.
 * @throws ERR_BLOCKSTEP_BAD_FILE for a measurement that cannot be read. ERR_BLOCKSTEP_BAD_ARG for a
 * prior without physics, and for a log of other requests, options or hardware. The signal's reason
 * once it is aborted
 */
export async function calibrate(input: CalibrateInput): Promise<Calibration> {
  const measurement = checkCalibrate(input);
  const { prior, text, name, scheduler, share = 0.5, starts = 2, evaluations = 70, signal } = input;
  const { physics } = measurement;
  const common = { scheduler, physics, host: prior.host, share, starts, evaluations, signal };
  let fitted: Fitted;
  let steps: Calibration['steps'] = null;
  let form = 'iterations';
  let left = 0;
  if (measurement.steps !== null) {
    const found = await fitSteps({ ...common, workload: measurement.workload, log: measurement.steps });
    const { equalSteps, difference } = found;
    steps = { equalSteps, steps: found.steps, difference };
    fitted = found;
  } else {
    ({ form, left } = measurement.log);
    const { workload, times } = measurement.log;
    fitted = await fitRequests({ ...common, workload, times, onProgress: input.onProgress });
  }
  const { space, solution, ensemble, errors, seen } = fitted;
  const { schema, name: what, provenance, host, kvTokens } = prior;
  return {
    profile: {
      schema,
      kind: 'fitted',
      name: what,
      provenance: {
        ...provenance,
        vllm: input.vllm ?? null,
        date: input.date ?? null,
        source: `${name} (${form})`,
        sha256: createHash('sha256').update(text).digest('hex'),
      },
      seen,
      host,
      kvTokens,
      physics,
      coefficients: space.coefficients(solution.logs),
      fit: {
        errors,
        undetermined: space.undetermined(solution),
        ensemble: ensemble.map((logs) => space.coefficients(logs)),
      },
    },
    form,
    priorErrors: fitted.priorErrors,
    simulations: fitted.simulations,
    steps,
    left,
  };
}

/** A measurement that was read: logged steps with their requests, or the times of requests. */
type Measurement = { readonly physics: Physics } & (
  | { readonly steps: readonly LoggedStep[]; readonly workload: Workload }
  | { readonly steps: null; readonly log: RequestLog }
);

/**
 * Checks the input of a fit, and reads the measurement.
 * @throws as `calibrate`, except for a log of other requests or options
 */
export function checkCalibrate(input: CalibrateInput): Measurement {
  const { prior, text, name, requests, scheduler, share, starts, evaluations } = input;
  if (prior.kind === 'table') throw badPrior(prior.name);
  const { numSpeculativeTokens } = resolveOptions(scheduler);
  if (numSpeculativeTokens !== 0)
    throw badArgument(
      'numSpeculativeTokens',
      show(numSpeculativeTokens),
      '0: a measurement does not say which drafts were accepted',
    );
  checkNumber('share', share ?? 0.5, 0.1, 0.95);
  checkInteger('starts', starts ?? 2, 1, 16);
  checkInteger('evaluations', evaluations ?? 70, 10, 10_000);
  const { physics } = prior;
  if (!isIterationLog(text)) {
    const log = readRequestLog(text, name);
    checkRequests(log, physics);
    return { physics, steps: null, log };
  }
  const steps = readIterationLog(text, name);
  if (requests == null) throw noRequests(name);
  checkSteps(steps, physics);
  return { physics, steps, workload: requests };
}

function badPrior(name: string): Error {
  return badArgument('prior', `the table ${name}`, 'a roofline or a fitted profile');
}

function noRequests(name: string): Error {
  return badArgument('requests', `none for ${name}`, 'the requests of the log: it has their numbers alone');
}
